"""How old records are that were there before the broker knew their partition."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker import older_arrivals
from penstock.broker.arrivals import Arrivals
from penstock.broker.older_arrivals import OlderArrivals, Search
from penstock.broker.peer_connection import PeerFailed
from penstock.broker.server import Broker as RunningBroker
from penstock.client import Admin, Producer
from penstock.records.builder import build_batch
from penstock.storage.contract import ColdRead, StorageError
from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.simulated_world import SimulatedWorld
from tests.broker.test_metrics import figures
from tests.broker.test_shared_catalog import pair, until

MINUTE_MS = 60_000


class Rig:
    """A topic with records of the past, one a minute, which the broker has known for a second."""

    def __init__(self, partitions: int = 1, records: int = 10_000) -> None:
        self.world = SimulatedWorld()
        self.world.pass_ms(40 * 24 * 60 * MINUTE_MS)
        self.start_ms = self.world.now_ms()
        self.records = records
        self.timestamps: dict[int, int | None] = {}
        """Timestamps of records that have others than the minutes before the start."""
        self.lookups = 0
        self.cold = 0
        self.failure: Exception | None = None
        self.others: set[int] = set()
        self.sent: list[tuple[m.ListOffsetsRequest, Any]] = []
        log = SimpleNamespace(high_watermark=records, offset_for_timestamp=self.offset_for_timestamp)
        hosted = SimpleNamespace(log=log)
        self.topic: Any = SimpleNamespace(
            name="orders",
            topic_id=b"o",
            partition_count=partitions,
            find_hosted=lambda index: None if index in self.others else hosted,
            has_partition=lambda index: index < partitions,
        )
        topics = {b"o": self.topic}
        cluster: Any = SimpleNamespace(
            topics=lambda: list(topics.values()),
            topic_by_id=topics.get,
            known_topic=topics.get,
            leader_elsewhere=lambda _, index: 2 if index in self.others else None,
        )
        self.topics = topics
        peers: Any = SimpleNamespace(send=lambda node, lane, request, shape, done: self.sent.append((request, done)))
        self.arrivals = Arrivals(cluster, self.world, lambda topic, span: [records] * partitions)
        self.older = OlderArrivals(cluster, self.arrivals, lambda: peers, self.world)
        self.arrivals.start()

    def timestamp(self, offset: int) -> int | None:
        return self.timestamps.get(offset, self.start_ms - (self.records - offset) * MINUTE_MS)

    def first_since(self, timestamp: int) -> int | None:
        times = ((offset, self.timestamp(offset)) for offset in range(self.records))
        return next((offset for offset, found in times if found is not None and found >= timestamp), None)

    def offset_for_timestamp(self, timestamp: int) -> Any:
        self.lookups += 1
        if self.failure is not None:
            raise self.failure
        if self.cold:
            self.cold -= 1
            raise ColdRead(lambda: None)
        found = self.first_since(timestamp)
        return None if found is None else SimpleNamespace(offset=found)

    def want(self, *positions: int) -> None:
        self.older.want(self.topic, 0, positions)
        self.world.pass_ms(10_000)

    def age_minutes(self, offset: int, partition: int = 0) -> float:
        return self.arrivals.age_ms(self.topic, partition, offset) / MINUTE_MS


@pytest.mark.parametrize("age", [1, 7, 90, 1500, 9_999])
def test_a_record_from_before_the_start_is_about_as_old_as_its_timestamp_says(age: int) -> None:
    rig = Rig()
    position = rig.records - age
    assert rig.age_minutes(position) == 0
    rig.want(position)
    assert age / 1.3 <= rig.age_minutes(position) <= age + 1
    assert rig.lookups <= 20


def test_what_was_found_serves_other_positions_and_nothing_is_looked_up_twice() -> None:
    rig = Rig()
    rig.want(5_000)
    lookups = rig.lookups
    assert rig.age_minutes(6_000) > 500, "the search for the one passed by the other"
    rig.want(5_000)
    rig.want(5_010)
    assert rig.lookups == lookups
    rig.want(9_990)
    assert rig.lookups > lookups
    assert 7 <= rig.age_minutes(9_990) <= 11


def test_what_arrived_since_the_start_is_not_searched() -> None:
    rig = Rig()
    rig.want(rig.records)
    assert rig.lookups == 0


def test_a_record_without_a_timestamp_is_as_old_as_the_partition_has_been_known() -> None:
    rig = Rig()
    rig.timestamps = dict.fromkeys(range(rig.records))
    rig.want(0)
    assert rig.age_minutes(0) < 1
    assert rig.lookups == 1
    rig.want(5)
    assert rig.lookups == 1, "none of them has one"


def test_a_timestamp_in_the_future_makes_no_record_older() -> None:
    rig = Rig()
    rig.timestamps = {100: rig.start_ms + 10_000_000}
    rig.want(5_000)
    assert rig.age_minutes(5_000) < 1
    rig.want(50)
    assert rig.age_minutes(50) > 5_000


def test_what_is_not_in_memory_is_fetched_and_looked_up_then(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    monkeypatch.setattr(older_arrivals, "when_fetched", lambda world, cold, then: world.call_soon(then, None))
    rig.cold = 3
    rig.want(5_000)
    assert rig.cold == 0
    assert rig.age_minutes(5_000) > 3_500


def test_a_log_that_cannot_be_read_ends_its_search_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(2)
    rig.failure = StorageError("broken")
    rig.want(5_000, rig.records)
    rig.failure = RuntimeError("nobody thought of this")
    rig.want(5_000, rig.records)
    assert "looking up when records arrived failed" in caplog.text
    rig.failure = None
    rig.want(5_000, 4_000)
    assert rig.age_minutes(5_000) > 3_500
    assert rig.age_minutes(4_000, 1) > 4_500


def test_partitions_that_others_lead_are_looked_up_there() -> None:
    rig = Rig(3)
    rig.others = {0, 2}
    rig.older.want(rig.topic, 0, (5_000, rig.records, 9_000))
    while True:
        rig.world.pass_ms(100)
        if not rig.sent:
            break
        [(request, done)] = rig.sent
        rig.sent.clear()
        found = []
        for topic in request.topics:
            for each in topic.partitions:
                offset = rig.first_since(each.timestamp)
                shape = m.ListOffsetsResponse.ListOffsetsPartitionResponse
                found.append(shape(partition_index=each.partition_index, offset=-1 if offset is None else offset))
        done(
            m.ListOffsetsResponse(
                topics=[m.ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=found)]
            )
        )
    assert 3_800 <= rig.age_minutes(5_000, 0) <= 5_001
    assert 770 <= rig.age_minutes(9_000, 2) <= 1_001
    assert rig.lookups == 0


def test_a_leader_that_does_not_answer_is_tried_again_when_somebody_wants_to_know() -> None:
    rig = Rig()
    rig.others = {0}
    for _ in range(2):
        rig.older.want(rig.topic, 0, (5_000,))
        rig.world.pass_ms(100)
        [(_, done)] = rig.sent
        rig.sent.clear()
        done(PeerFailed("nobody answers"))
        rig.world.pass_ms(10_000)
        assert rig.sent == []


def test_a_topic_that_is_deleted_is_searched_no_more() -> None:
    rig = Rig(20)
    rig.older.want(rig.topic, 0, [5_000] * 20)
    rig.world.pass_ms(60)
    lookups = rig.lookups
    rig.older.topic_deleted(rig.topic)
    del rig.topics[b"o"]
    rig.world.pass_ms(10_000)
    assert rig.lookups == lookups


def test_a_stop_ends_the_searches() -> None:
    rig = Rig()
    rig.older.want(rig.topic, 0, (5_000,))
    rig.older.stop()
    rig.world.pass_ms(10_000)
    assert rig.lookups == 0


def test_a_search_closes_in_in_few_steps_over_years() -> None:
    now_ms = 1_800_000_000_000
    for age_ms in (5_000, MINUTE_MS, 3_600_000, 30 * 24 * 3_600_000, 3 * 365 * 24 * 3_600_000):
        search, steps = Search(500, 1_000, now_ms - 1_000, now_ms), 0
        while search.probe_ms is not None:
            steps += 1
            assert search.answered(0 if search.probe_ms <= now_ms - age_ms else 600) in (0, 600)
        assert steps <= 20


METRICS = {"penstock.metrics.listen": "127.0.0.1:0"}
_AGE = 'penstock_group_lag_age_seconds{group="g",topic="orders"}'


def test_the_age_of_a_backlog_outlives_a_restart(tmp_path: Path) -> None:
    with Broker(METRICS, data=tmp_path) as broker:
        broker.create_topic("orders")
        sent_ms = int(time.time() * 1000) - 7 * MINUTE_MS
        parts = broker._running().parts

        def produce() -> None:
            for second in range(7 * 60):
                batch = build_batch([(sent_ms + 1000 * second, None, b"x" * 100, ())])
                parts.cluster.topic("orders").hosted(0).append_internal(batch, sent_ms)

        broker._call(produce)
        asyncio.run(_commit(f"127.0.0.1:{broker.port}", 60))
    with Broker(METRICS, data=tmp_path) as broker:
        parts = broker._running().parts
        assert parts.measuring is not None
        broker._call(lambda: list(parts.measuring._searched_lag()) if parts.measuring else None)
        ends_at = time.monotonic() + 20
        while figures(broker)[_AGE] < 270 and time.monotonic() < ends_at:
            time.sleep(0.1)
        assert 270 <= figures(broker)[_AGE] <= 360 + 30


async def _commit(bootstrap: str, offset: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_group_offsets("g", {("orders", 0): offset})


async def test_the_age_of_a_backlog_is_known_where_others_lead_the_partition(tmp_path: Path) -> None:
    async with pair(tmp_path, METRICS) as brokers, Producer(bootstrap_servers=brokers[0].bootstrap) as producer:
        topic = brokers[0].parts.topics.create("orders", 2, {})
        now_ms = int(time.time() * 1000)
        for index in range(2):
            for minute in range(10, 0, -1):
                await producer.send("orders", b"x", partition=index, timestamp_ms=now_ms - minute * MINUTE_MS)
        await producer.flush()
        async with Admin(bootstrap_servers=brokers[1].bootstrap) as admin:
            await admin.alter_group_offsets("g", {("orders", index): 0 for index in range(2)})
        await until(lambda: any(_knows(broker, topic.topic_id) for broker in brokers))
        [coordinator] = [broker for broker in brokers if _knows(broker, topic.topic_id)]
        measuring = coordinator.parts.measuring
        assert measuring is not None

        def is_old() -> bool:
            list(measuring._searched_lag())
            return all(measuring._arrivals.age_ms(topic, index, 0) >= 450_000 for index in range(2))

        await until(is_old)


def _knows(broker: RunningBroker, topic_id: bytes) -> bool:
    measuring = broker.parts.measuring
    return measuring is not None and measuring._elsewhere is not None and topic_id in measuring._elsewhere._read
