"""When something counts as durable, who is told, and who is told that it is late."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.broker.durability import Durability, NotDurableInTime
from penstock.broker.world import World
from penstock.storage.contract import Callback, LeadershipLost, Log, Storage, StorageError


class Disk:
    can_lose_appends = False

    """A storage whose flushes end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, int, Callback]] = []
        self.begun: list[str] = []

    def when_durable(self, log: str, position: int, callback: Callback) -> None:
        self.waiting.append((log, position, callback))

    def when_start_durable(self, log: str, callback: Callback) -> None:
        self.waiting.append((log, -1, callback))

    def make_durable_soon(self, log: str) -> None:
        self.begun.append(log)

    def flush(self, log: str, failure: StorageError | None = None) -> None:
        flushed = [each for each in self.waiting if each[0] == log]
        self.waiting = [each for each in self.waiting if each[0] != log]
        for _, _, callback in flushed:
            callback(failure)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class Shell:
    """Durability over a disk and a clock of the test; `told` is what the waiting learned, in order."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.clock = Clock()
        self.awaits = True
        self.notified: list[tuple[str, StorageError | None]] = []
        self.durability = Durability(cast(Storage, self.disk), cast(World, self.clock), lambda: self.awaits)

    def wait(self, who: str, *logs: str, timeout_ms: int | None = None) -> None:
        appends = [(cast(Log, log), 5) for log in logs]
        self.durability.when_durable(
            appends, lambda failure: self.notified.append((who, failure)), timeout_ms=timeout_ms
        )


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_whoever_waits_is_told_when_every_log_is_on_disk(shell: Shell) -> None:
    shell.wait("producer", "a", "b")
    shell.disk.flush("a")
    assert shell.notified == []
    assert not shell.durability.is_idle
    shell.disk.flush("b")
    assert shell.notified == [("producer", None)]
    assert shell.durability.is_idle


def test_the_disk_is_asked_for_the_offsets_that_were_appended(shell: Shell) -> None:
    shell.wait("producer", "a")
    assert [(log, position) for log, position, _ in shell.disk.waiting] == [("a", 5)]


def test_nothing_to_wait_for_is_durable_at_once(shell: Shell) -> None:
    shell.wait("empty")
    assert shell.notified == [("empty", None)]


def test_where_nobody_waits_for_the_disk_it_is_not_even_asked(shell: Shell) -> None:
    shell.awaits = False
    shell.wait("producer", "a")
    shell.durability.begin(cast(Log, "a"))
    assert shell.notified == [("producer", None)]
    assert (shell.disk.waiting, shell.disk.begun) == ([], [])


def test_the_setting_may_change_while_somebody_waits(shell: Shell) -> None:
    shell.wait("first", "a")
    shell.awaits = False
    shell.wait("second", "a")
    assert shell.notified == [("second", None)]
    shell.disk.flush("a")
    assert shell.notified == [("second", None), ("first", None)]


def test_the_first_failure_is_told_at_once_and_once(shell: Shell) -> None:
    failure = StorageError("the disk is gone")
    shell.wait("producer", "a", "b")
    shell.disk.flush("a", failure)
    shell.disk.flush("b", StorageError("again"))
    assert shell.notified == [("producer", failure)]


def test_who_has_waited_too_long_is_told_so_and_the_others_go_on_waiting(shell: Shell) -> None:
    shell.wait("hurried", "a", timeout_ms=1000)
    shell.wait("patient", "a", timeout_ms=5000)
    shell.wait("coordinator", "a")
    shell.durability.end_late_waits()
    assert shell.notified == []
    shell.clock.seconds += 1.1
    shell.durability.end_late_waits()
    ((who, failure),) = shell.notified
    assert who == "hurried"
    assert isinstance(failure, NotDurableInTime)
    shell.disk.flush("a")
    assert [who for who, _ in shell.notified] == ["hurried", "patient", "coordinator"]
    assert shell.durability.is_idle


def test_one_late_wait_whose_answer_fails_does_not_cost_the_others(shell: Shell) -> None:
    def fail(failure: StorageError | None) -> None:
        raise ValueError("a fault of this one alone")

    for _ in range(2):
        shell.durability.when_durable([(cast(Log, "a"), 5)], fail, timeout_ms=0)
        shell.wait("other", "a", timeout_ms=0)
    shell.clock.seconds += 1
    shell.durability.end_late_waits()
    assert [who for who, _ in shell.notified] == ["other", "other"]
    assert shell.durability.is_idle


def test_a_flush_can_begin_with_nobody_waiting_for_it(shell: Shell) -> None:
    shell.durability.begin(cast(Log, "a"))
    assert (shell.disk.begun, shell.durability.is_idle) == (["a"], True)


def test_each_append_has_its_own_outcome_and_what_is_late_is_told_apart(shell: Shell) -> None:
    notified: list[list[str]] = []

    def settled(failures: list[StorageError | None]) -> None:
        notified.append([type(failure).__name__ for failure in failures])

    appends = [(cast(Log, log), 5) for log in "abc"]
    shell.durability.when_each_is_settled(appends, settled, timeout_ms=1000)
    shell.disk.flush("b", LeadershipLost("another broker leads"))
    shell.disk.flush("a")
    assert notified == []
    shell.clock.seconds += 2
    shell.durability.end_late_waits()
    shell.disk.flush("c")
    assert notified == [["NoneType", "LeadershipLost", "NotDurableInTime"]]
    assert shell.durability.is_idle


def test_everybody_waits_where_appends_can_be_lost() -> None:
    class Remote(Disk):
        can_lose_appends = True

    disk = Remote()
    durability = Durability(cast(Storage, disk), cast(World, Clock()), lambda: False)
    notified: list[StorageError | None] = []
    durability.when_durable([(cast(Log, "a"), 5)], notified.append)
    assert notified == []
    disk.flush("a")
    assert notified == [None]


def test_each_start_of_a_log_is_settled_by_itself_and_awaited_whatever_is_configured(shell: Shell) -> None:
    outcomes: list[list[StorageError | None]] = []
    failure = LeadershipLost("another broker leads")
    shell.awaits = False
    logs = [cast(Log, each) for each in ("a", "b")]
    shell.durability.when_each_start_is_settled(logs, outcomes.append, timeout_ms=1000)
    shell.disk.flush("a", failure)
    assert outcomes == []
    shell.disk.flush("b")
    assert outcomes == [[failure, None]]
    shell.durability.when_each_start_is_settled([], outcomes.append, timeout_ms=1000)
    assert outcomes[1:] == [[]]


def test_a_start_that_is_not_settled_in_time_is_reported_as_late(shell: Shell) -> None:
    outcomes: list[list[StorageError | None]] = []
    logs = [cast(Log, each) for each in ("a", "b")]
    shell.durability.when_each_start_is_settled(logs, outcomes.append, timeout_ms=1000)
    shell.disk.flush("a")
    shell.clock.seconds += 1.1
    shell.durability.end_late_waits()
    [[first, second]] = outcomes
    assert first is None
    assert isinstance(second, NotDurableInTime)
