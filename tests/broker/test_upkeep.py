"""What happens by the clock happens again and again, whatever fails, until the broker stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig
from penstock.broker.topics import Partition, Topic
from penstock.broker.upkeep import Upkeep
from penstock.broker.world import WaitsFor
from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.storage.contract import ColdRead, LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage
from tests.broker.simulated_world import SimulatedWorld

PRODUCER = 7
T = TypeVar("T")


class WatchedStorage(MemoryStorage):
    def __init__(self) -> None:
        super().__init__(lambda callback: callback())
        self.saves = 0

    def save_progress(self) -> None:
        self.saves += 1


class Shell:
    def __init__(self, world: SimulatedWorld | None = None) -> None:
        self.world = world or SimulatedWorld()
        self.cluster = ClusterView("cluster", 1, None)
        self.storage = WatchedStorage()
        self.sweeps = 0
        self.cleanings = 0
        self.cleaning_fails = False
        config = {"log.retention.check.interval.ms": "10000", "producer.id.expiration.check.interval.ms": "20000"}
        self.upkeep = Upkeep(
            BrokerConfig(config), self.cluster, self.storage, self.world, sweep=self._sweep, clean=self._clean
        )

    def _sweep(self) -> None:
        self.sweeps += 1

    def _clean(self) -> None:
        self.cleanings += 1
        if self.cleaning_fails:
            raise ValueError("a fault of compaction alone")

    def add_log(self, name: str, log_config: LogConfig) -> MemoryLog:
        """The log of a topic with one record of an idempotent producer in it."""
        topic = Topic(name, name.encode().ljust(16), {}, 1)
        log = self.storage.open_log(name, 0, topic.topic_id, log_config)
        topic.host(Partition(topic, 0, log))
        self.cluster.add_topic(topic)
        now_ms = self.world.now_ms()
        batch = build_batch([(now_ms, None, b"v", ())], producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        log.append(batch, parse_header(batch), now_ms=now_ms)
        return log


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_each_duty_comes_at_its_own_pace(shell: Shell) -> None:
    expiring = shell.add_log("expiring", LogConfig(retention_ms=5_000))
    shell.upkeep.start()
    shell.world.pass_ms(9_900)
    assert (shell.sweeps, shell.storage.saves) == (9, 0)
    assert expiring.log_start_offset == 0
    shell.world.pass_ms(110)
    assert expiring.log_start_offset == 1
    shell.world.pass_ms(60_000)
    assert shell.storage.saves == 1


def test_a_duty_that_fails_is_done_again(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    shell.cleaning_fails = True
    shell.upkeep.start()
    shell.world.pass_ms(3_100)
    assert shell.cleanings == shell.sweeps == 3
    assert [record.getMessage() for record in caplog.records] == ["the timer of compaction failed"] * 3


def test_nothing_more_happens_after_the_stop(shell: Shell) -> None:
    shell.upkeep.start()
    shell.upkeep.stop()
    shell.world.pass_ms(1_000_000)
    assert (shell.sweeps, shell.cleanings, shell.storage.saves) == (0, 0, 0)


def test_a_duty_that_stops_the_upkeep_is_not_done_again(shell: Shell) -> None:
    runs: list[str] = []

    def stop() -> None:
        runs.append("run")
        shell.upkeep.stop()

    shell.upkeep.every("a test", 1, stop)
    shell.world.pass_ms(10_000)
    assert runs == ["run"]


def test_retention_is_applied_to_each_log_though_another_fails(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = (shell.add_log(name, LogConfig(retention_ms=5_000)) for name in ("a", "b"))
    kept = shell.add_log("c", LogConfig(retention_ms=-1))

    def fail(now_ms: int) -> int:
        raise ValueError("a fault of this log alone")

    monkeypatch.setattr(broken, "apply_retention", fail)
    shell.world.pass_ms(6_000)
    with caplog.at_level("INFO"):
        assert shell.upkeep.apply_retention() == 1
    assert (broken.log_start_offset, good.log_start_offset, kept.log_start_offset) == (0, 1, 0)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["retention of a-0 failed", "retention deleted segments of b-0"]


def test_producers_are_forgotten_in_each_log_though_another_fails(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig(producer_id_expiration_ms=5_000)
    broken, good = (shell.add_log(name, config) for name in ("a", "b"))

    def fail(now_ms: int) -> None:
        raise ValueError("a fault of this log alone")

    monkeypatch.setattr(broken, "expire_producers", fail)
    shell.upkeep.expire_producers()
    assert good.knows_producer(PRODUCER)
    shell.world.pass_ms(6_000)
    shell.upkeep.expire_producers()
    assert broken.knows_producer(PRODUCER)
    assert not good.knows_producer(PRODUCER)


def test_how_long_ago_each_task_ended_well_is_told() -> None:
    shell = Shell()
    shell.upkeep.start()
    shell.cleaning_fails = True
    shell.world.pass_ms(12_500)
    ages = shell.upkeep.success_ages()
    assert ages["compaction"] >= 12
    assert ages["bounds on waiting"] < 2
    assert ages["retention"] < 3
    shell.upkeep.stop()


class SlowDisk(SimulatedWorld):
    """Threads that end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.fetching: list[asyncio.Future[None]] = []

    def in_thread(self, work: Callable[[], T], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[T]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.fetching.append(future)
        return cast("asyncio.Future[T]", future)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("ends_well", [True, False])
async def test_retention_that_waits_for_the_disk_has_ended_well_only_when_it_has(
    monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    world = SlowDisk()
    shell = Shell(world)
    log = shell.add_log("cold", LogConfig(retention_ms=5_000))
    cold = [ColdRead(lambda: None)]

    def apply_retention(now_ms: int) -> int:
        if cold:
            raise cold.pop()
        return 1

    monkeypatch.setattr(log, "apply_retention", apply_retention)
    shell.upkeep.start()
    world.pass_ms(10_000)
    assert shell.upkeep.success_ages()["retention"] == 10
    (fetching,) = world.fetching
    if ends_well:
        fetching.set_result(None)
    else:
        fetching.set_exception(OSError("the disk is broken"))
    await _settle()
    assert shell.upkeep.success_ages()["retention"] == (0 if ends_well else 10)
    assert shell.upkeep.deleted_segments == (1 if ends_well else 0)
    world.pass_ms(10_000)  # the next round finds everything in memory
    assert shell.upkeep.success_ages()["retention"] == 0
    shell.upkeep.stop()
