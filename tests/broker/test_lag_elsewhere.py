"""The lag of groups whose partitions are led, and whose states are kept, by other brokers than their coordinator."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker import lag_elsewhere
from penstock.broker.lag_elsewhere import LagElsewhere
from penstock.broker.server import Broker
from penstock.broker.share.log_ends import EARLIEST, Place
from penstock.client import Admin, Producer, ResourceType, ShareConsumer
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.queues.state import ShareGroupState
from penstock.wire.errors import ErrorCode
from tests.broker.simulated_world import SimulatedWorld
from tests.broker.test_shared_catalog import pair

METRICS = {"penstock.metrics.listen": "127.0.0.1:0", "penstock.metrics.partitions": "true"}
PARTITIONS = 6
TOPICS = ("orders", "payments")
GROUPS = ("g1", "g2", "g3")
QUEUES = ("q1", "q2", "q3")
_OF_LAG = re.compile(r"penstock_(share_)?group_(partition_)?(lag|commit_age|acknowledgement_age|stalled)_")


class Shown:
    """What the brokers show together."""

    def __init__(self, brokers: Iterable[Broker]) -> None:
        self.figures: dict[str, float] = {}
        for broker in brokers:
            for line in broker.parts.metrics.text().splitlines():
                if _OF_LAG.match(line):
                    name, _, value = line.rpartition(" ")
                    assert name not in self.figures, f"two brokers show {name}"
                    self.figures[name] = float(value)

    def lags(self, prefix: str) -> dict[str, tuple[float, float, dict[int, float]]]:
        """Sum, maximum and single partitions, by group and topic."""
        found = {}
        for name, value in self.figures.items():
            if name.startswith(f"{prefix}_lag_records_sum"):
                labels = name.partition("{")[2].removesuffix("}")
                singles = {
                    index: self.figures[single]
                    for index in range(PARTITIONS)
                    if (single := f'{prefix}_partition_lag_records{{{labels},partition="{index}"}}') in self.figures
                }
                found[labels] = value, self.figures[f"{prefix}_lag_records_max{{{labels}}}"], singles
        return found


def expected(lags: dict[tuple[str, TopicPartition], int]) -> dict[str, tuple[float, float, dict[int, float]]]:
    singles: dict[str, dict[int, float]] = {}
    for (group, tp), lag in lags.items():
        singles.setdefault(f'group="{group}",topic="{tp.topic}"', {})[tp.partition] = lag
    return {labels: (sum(each.values()), max(each.values()), each) for labels, each in singles.items()}


async def test_the_lag_that_brokers_show_together_is_what_kafka_s_requests_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_elsewhere, "ROUND_SECONDS", 0.1)
    chance = random.Random(18)
    async with pair(tmp_path, METRICS) as brokers, Admin(bootstrap_servers=brokers[0].bootstrap) as admin:
        for topic in TOPICS:
            brokers[0].parts.topics.create(topic, PARTITIONS, {})
        for queue in QUEUES:
            await admin.alter_configs(ResourceType.GROUP, queue, {"share.auto.offset.reset": "earliest"})
            async with ShareConsumer(bootstrap_servers=brokers[0].bootstrap, group_id=queue) as worker:
                worker.subscribe(TOPICS)
                async with asyncio.timeout(60):
                    while len(await admin.list_share_group_offsets(queue)) < len(TOPICS) * PARTITIONS:
                        await worker.poll(200)
        ends = {TopicPartition(topic, index): 1 for topic in TOPICS for index in range(PARTITIONS)}
        async with Producer(bootstrap_servers=brokers[1].bootstrap) as producer:
            for tp in ends:  # in a log that never had a record a queue has no lag for Kafka's tools
                await producer.send(tp.topic, b"x", partition=tp.partition)
            for _ in range(3):
                for _ in range(25):
                    tp = chance.choice(list(ends))
                    for _ in range(chance.randint(1, 5)):
                        await producer.send(tp.topic, b"x", partition=tp.partition)
                        ends[tp] += 1
                    await admin.alter_group_offsets(chance.choice(GROUPS), {tp: chance.randint(0, ends[tp])})
                await producer.flush()
                await admin.alter_share_group_offsets(
                    chance.choice(QUEUES),
                    {tp: chance.randint(0, end) for tp, end in chance.sample(list(ends.items()), 3)},
                )
                await _agree(admin, brokers)
        spread = {broker.parts.cluster.node_id for broker in brokers if Shown([broker]).figures}
        assert len(spread) == 2, "both brokers coordinate some of the groups"


async def _agree(admin: Admin, brokers: Iterable[Broker]) -> None:
    """Wait until what is shown is what an administrator sees, and fail with the difference if it never is."""
    ends = await admin.list_offsets(
        {TopicPartition(topic, index): int(OffsetSpec.LATEST) for topic in TOPICS for index in range(PARTITIONS)}
    )
    groups = {
        (group, tp): ends[tp].offset - committed.offset
        for group in GROUPS
        for tp, committed in (await admin.list_group_offsets(group)).items()
    }
    queues = {
        (queue, tp): offset.lag
        for queue in QUEUES
        for tp, offset in (await admin.list_share_group_offsets(queue)).items()
        if offset.lag >= 0
    }
    for _ in range(200):
        shown = Shown(brokers)
        found = shown.lags("penstock_group"), shown.lags("penstock_share_group")
        if found == (expected(groups), expected(queues)):
            break
        await asyncio.sleep(0.1)
    assert found == (expected(groups), expected(queues))
    ages = {name: value for name, value in shown.figures.items() if "age_seconds" in name or "stalled" in name}
    assert ages
    assert all(0 <= value < 3600 for value in ages.values())


class Rig:
    """Rounds over partitions that others lead, with answers and time in the test's hands."""

    def __init__(self, partitions: int = 4) -> None:
        self.world = SimulatedWorld()
        self.orders = SimpleNamespace(
            name="orders", topic_id=b"o", partition_count=partitions, find_hosted=lambda _: None
        )
        self.commits: dict[str, dict[str, object]] = {"g": {"orders": {}}}
        self.queues: dict[str, dict[bytes, frozenset[int]]] = {}
        self.asked: list[int] = []
        self.asked_at: list[float] = []
        self.ends: dict[int, int | None] = {}
        self.progress: dict[int, tuple[int, int]] = {}
        self.answers = True
        shard = SimpleNamespace(
            state=SimpleNamespace(offsets=SimpleNamespace(groups=lambda: iter(self.commits.items()))),
            share_groups=lambda: list(self.queues.items()),
        )
        groups = SimpleNamespace(runtime=SimpleNamespace(loaded_handles=lambda: [SimpleNamespace(shard=shard)]))
        share = SimpleNamespace(
            log_ends=SimpleNamespace(find=self._find),
            coordinator=SimpleNamespace(state_partition=lambda key: key[2] % 2, states=self._find_states),
        )
        topics = {"orders": self.orders}
        cluster: Any = SimpleNamespace(
            find_topic=topics.get,
            known_topic={b"o": self.orders}.get,
            leader_elsewhere=lambda name, index: 2 if name == "orders" or index else None,
        )
        found: Any = SimpleNamespace(groups=groups, share_groups=share)
        self.elsewhere = LagElsewhere(cluster, lambda: found, self.world)
        self.topic: Any = self.orders
        self.elsewhere.start()

    def _find(self, places: list[Place], done: Callable[[Any], None], *, timestamp: int) -> None:
        if timestamp == EARLIEST:
            self.asked.append(len(places))
            self.asked_at.append(self.world.monotonic())
        answer = {place: 0 if timestamp == EARLIEST else self.ends.get(place[1], 7) for place in places}
        if self.answers:
            self.world.call_soon(done, answer)

    def _find_states(self, group: str, partitions: list[tuple[bytes, int]], done: Callable[[Any], None]) -> None:
        found: dict[tuple[bytes, int], ShareGroupState | ErrorCode] = {
            place: ShareGroupState(0, 0, 0, *self.progress[place[1]], 0, 0)
            if place[1] in self.progress
            else ErrorCode.COORDINATOR_NOT_AVAILABLE
            for place in partitions
        }
        self.world.call_soon(done, found)

    def known(self) -> list[int]:
        return self.elsewhere.ends(self.topic, range(self.orders.partition_count))


def test_a_topic_is_not_known_before_the_first_round_is_over() -> None:
    rig = Rig()
    assert not rig.elsewhere.is_known(rig.topic)
    rig.world.pass_ms(500)
    assert not rig.elsewhere.is_known(rig.topic)
    rig.world.pass_ms(1_000)
    assert rig.elsewhere.is_known(rig.topic)
    assert rig.known() == [7, 7, 7, 7]


def test_a_leader_that_does_not_answer_leaves_what_was_known_and_what_never_was_is_known_to_be_unknown() -> None:
    rig = Rig()
    rig.ends = {1: None}
    rig.world.pass_ms(2_000)
    assert rig.elsewhere.is_known(rig.topic)
    assert rig.known() == [7, -1, 7, 7]
    rig.ends = {0: None, 1: 9, 2: 8}
    rig.world.pass_ms(5_000)
    assert rig.known() == [7, 9, 8, 7]


def test_many_partitions_are_read_in_small_requests_and_at_a_bounded_rate() -> None:
    rig = Rig(10_000)
    rig.world.pass_ms(25_000)
    assert max(rig.asked) == 200
    assert sum(rig.asked[:50]) == 10_000
    assert rig.asked_at[49] - rig.asked_at[0] >= 19
    rig.world.pass_ms(25_000)
    assert len(rig.asked) >= 100, "the next round has followed"


def test_rounds_go_on_after_one_has_failed() -> None:
    rig = Rig()
    rig.commits = {"g": {"orders": {}}}
    broken = rig.elsewhere._coordinators
    rig.elsewhere._coordinators = lambda: 1 / 0  # type: ignore[assignment, return-value]
    rig.world.pass_ms(6_000)
    age = rig.elsewhere.success_ages()[lag_elsewhere.TASK]
    assert age >= 6
    rig.elsewhere._coordinators = broken
    rig.world.pass_ms(6_000)
    assert rig.known() == [7, 7, 7, 7]
    assert rig.elsewhere.success_ages()[lag_elsewhere.TASK] < 6


def test_what_no_group_reads_any_more_is_forgotten() -> None:
    rig = Rig()
    rig.world.pass_ms(2_000)
    rig.commits.clear()
    rig.world.pass_ms(10_000)
    assert not rig.elsewhere.is_known(rig.topic)
    assert rig.known() == [-1, -1, -1, -1]


def test_a_state_makes_progress_when_it_is_first_read_as_it_is() -> None:
    rig = Rig()
    rig.queues = {"q": {b"o": frozenset({0, 1, 2, 3})}}
    rig.progress = {1: (3, 0)}
    assert not rig.elsewhere.knows_queue(("q", b"o"))
    rig.world.pass_ms(2_000)
    first_ms = rig.elsewhere.states(("q", b"o"))[1].progress_ms
    assert rig.elsewhere.knows_queue(("q", b"o"))
    assert list(rig.elsewhere.states(("q", b"o"))) == [1], "of 0 and 2 this broker keeps the state, 3 did not answer"
    rig.world.pass_ms(60_000)
    assert rig.elsewhere.states(("q", b"o"))[1].progress_ms == first_ms
    rig.progress = {1: (3, 1), 3: (0, 0)}
    before_ms = rig.world.now_ms()
    rig.world.pass_ms(10_000)
    assert rig.elsewhere.states(("q", b"o"))[1].progress_ms >= before_ms
    assert rig.elsewhere.states(("q", b"o"))[3].progress_ms >= before_ms


def test_a_stop_ends_the_rounds() -> None:
    rig = Rig()
    rig.answers = False
    rig.world.pass_ms(1_000)
    rig.elsewhere.stop()
    rig.world.pass_ms(60_000)
    assert len(rig.asked) == 1
