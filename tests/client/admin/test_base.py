from __future__ import annotations

import pytest

from penstock.client import Admin
from penstock.client.admin.base import raise_first
from penstock.wire import messages as m
from penstock.wire.errors import InvalidConfig, InvalidPartitions
from tests.client.scripted_broker import scripted_cluster


def test_of_several_errors_the_first_is_raised() -> None:
    raise_first({"fine": None, "fine too": None})
    with pytest.raises(InvalidConfig):
        raise_first({"fine": None, "bad": InvalidConfig("one"), "worse": InvalidPartitions("two")})


async def test_what_each_broker_knows_of_itself_is_asked_of_all() -> None:
    def knows(name: str) -> m.ListTransactionsResponse:
        state = m.ListTransactionsResponse.TransactionState(transactional_id=name, transaction_state="Ongoing")
        return m.ListTransactionsResponse(transaction_states=[state])

    async with scripted_cluster(nodes=3) as cluster:
        for broker in cluster.brokers:
            mine = knows(f"of broker {broker.node_id}")
            broker.answers[m.ListTransactionsRequest] = lambda request, version, mine=mine: mine  # type: ignore[misc]
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            found = [listing.transactional_id for listing in await admin.list_transactions()]
    assert found == ["of broker 1", "of broker 2", "of broker 3"]
