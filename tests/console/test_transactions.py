"""The page of transactions, against a real broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.producer import Producer
from penstock.client.types import IsolationLevel, TopicPartition
from penstock.console import held_back
from penstock.console.held_back import HeldBack
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, run


def test_an_open_transaction_is_shown_with_what_it_holds_back_and_is_aborted(
    console: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)

    async def main() -> Any:
        async with Producer(broker.client_settings(), transactional_id=fresh) as producer:
            producer.begin_transaction()
            await producer.send(fresh, b"x")
            await producer.flush()
            shown = await asyncio.to_thread(lambda: console.get("/transactions.json").json())
            asked = await asyncio.to_thread(lambda: console.submit("/transactions/abort", consent=False, id=fresh).text)
            done = await asyncio.to_thread(lambda: console.submit("/transactions/abort", id=fresh).text)
            again = await asyncio.to_thread(lambda: console.submit("/transactions/abort", id=fresh).status_code)
            return shown, asked, done, again

    shown, asked, done, again = run(main())
    (row,) = [row for row in shown["open"] if row["id"] == fresh]
    assert (row["state"], row["partitions"]) == ("Ongoing", [f"{fresh}-0"])
    (held,) = [row for row in shown["held"] if row["topic"] == fresh]
    assert (held["stable"], held["end"], held["id"], held["start"]) == (0, 1, fresh, 0)
    assert f"penstock txn abort {fresh} --bootstrap {broker.bootstrap_servers}" in asked
    assert f"The transaction of {fresh} is aborted" in done
    assert again == 409
    after = console.get("/transactions.json").json()
    assert fresh not in [row["id"] for row in after["open"]]
    assert fresh not in [row["topic"] for row in after["held"]]


class ManyPartitions:
    """An Admin of a cluster with 5,000 partitions; readers wait in some of them."""

    def __init__(self, *held: int) -> None:
        self.held = set(held)
        self.requested: list[set[int]] = []

    async def list_topics(self, *, include_internal: bool) -> list[Any]:
        return [SimpleNamespace(name="t", partitions={number: SimpleNamespace(leader=0) for number in range(5_000)})]

    async def list_offsets(self, wanted: Any, *, isolation: Any = IsolationLevel.READ_UNCOMMITTED) -> Any:
        if isolation is IsolationLevel.READ_COMMITTED:
            self.requested.append({tp.partition for tp in wanted})
            return {tp: SimpleNamespace(offset=5 if tp.partition in self.held else 9) for tp in wanted}
        return dict.fromkeys(wanted, SimpleNamespace(offset=9))

    async def describe_producers(self, partitions: Any) -> Any:
        state = SimpleNamespace(producer_id=7, current_transaction_start_offset=5)
        return {tp: [state] for tp in partitions}


async def test_of_many_partitions_each_look_goes_over_some_and_what_is_held_back_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_back, "_FRESH_SECONDS", -1.0)
    cluster = ManyPartitions(4_500, 4_900)

    async def admin() -> Any:
        return cluster

    watch = HeldBack(admin)
    open_in = {TopicPartition("t", 4_900)}
    looks = [await watch.look(open_in) for _ in range(4)]
    assert [(look.seen, look.total) for look in looks] == [
        (2_000, 5_000),
        (4_000, 5_000),
        (5_000, 5_000),
        (5_000, 5_000),
    ]
    assert [[each.tp.partition for each in look.held] for look in looks] == [[4_900]] * 2 + [[4_500, 4_900]] * 2
    assert set.union(*cluster.requested) == set(range(5_000))
    assert max(map(len, cluster.requested)) <= 2_000 + 2
    cluster.held = set()
    assert (await watch.look(())).held == []


async def test_one_look_serves_all_tabs() -> None:
    cluster = ManyPartitions()

    async def admin() -> Any:
        return cluster

    watch = HeldBack(admin)
    await asyncio.gather(*(watch.look(()) for _ in range(10)))
    assert len(cluster.requested) == 1
    watch.forget()
    await watch.look(())
    assert len(cluster.requested) == 2


def test_a_hanging_transaction_is_aborted_by_its_place(console: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)

    async def main() -> str:
        async with Producer(broker.client_settings(), transactional_id=fresh) as producer:
            producer.begin_transaction()
            await producer.send(fresh, b"x")
            await producer.flush()
            where = f"{fresh}:0:0"
            asked = await asyncio.to_thread(
                lambda: console.submit("/transactions/abort", consent=False, where=where).text
            )
            assert f"penstock txn abort --topic {fresh} --partition 0 --start-offset 0" in asked
            return await asyncio.to_thread(lambda: str(console.submit("/transactions/abort", where=where).text))

    assert f"began in {fresh}-0 at offset 0 is aborted" in run(main())
    assert console.submit("/transactions/abort", where=f"{fresh}:x:0").status_code == 400
