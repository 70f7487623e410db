from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, OffsetSpec, Producer, TopicPartition
from penstock.client.types import IsolationLevel
from penstock.wire.errors import (
    InvalidTxnState,
    TransactionalIdNotFound,
)


async def test_transactions_are_listed_described_and_their_producers_fenced(
    admin: Admin, bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    name, tp = fresh("tx"), TopicPartition(topic, 0)
    with pytest.raises(TransactionalIdNotFound):
        await admin.describe_transaction(name)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        described = await admin.describe_transaction(name)
        assert (described.state, described.partitions) == ("Ongoing", [tp])
        assert name in [listing.transactional_id for listing in await admin.list_transactions(states=["Ongoing"])]
        (state,) = (await admin.describe_producers([tp]))[tp]
        assert (state.producer_id, state.current_transaction_start_offset) == (described.producer_id, 0)
        await admin.fence_producers(name)
        async with asyncio.timeout(20):
            while (await admin.describe_producers([tp]))[tp][0].current_transaction_start_offset >= 0:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_hanging_transaction_is_aborted_by_where_it_began(
    admin: Admin, bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        with pytest.raises(InvalidTxnState, match="began at offset 7"):
            await admin.abort_transaction(tp, 7)
        assert (await admin.list_offsets({tp: OffsetSpec.LATEST}, isolation=IsolationLevel.READ_COMMITTED))[tp][0] == 0
        await admin.abort_transaction(tp, 0)
        assert (await admin.list_offsets({tp: OffsetSpec.LATEST}, isolation=IsolationLevel.READ_COMMITTED))[tp][0] == 2
        (state,) = (await admin.describe_producers([tp]))[tp]
        assert state.current_transaction_start_offset == -1
