"""What the storage refuses to note of a window is written again until it is stored; meanwhile the window says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.broker.share.coordinator import Outcome
from penstock.broker.share.writes import StateWrites
from penstock.broker.world import World
from penstock.queues.transitions import StateBatch, StateWrite
from penstock.wire.errors import CoordinatorNotAvailable, KafkaError

CHANGE = StateWrite(3, 0, [StateBatch(4, 4, 0, 1)])
WHOLE = StateWrite(5, 1, [StateBatch(6, 7, 2, 1)])


class Pause:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    """Writes to a storage that does what it is set to: None stores at once, an error refuses, WAITS answers later."""

    WAITS = object()

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.sent: list[StateWrite] = []
        self.waiting: list[Outcome] = []
        self.pauses: list[Pause] = []
        self.told = 0
        self.writes = StateWrites(cast(World, self), self.send, lambda: WHOLE)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Pause:
        self.pauses.append(Pause(callback))
        return self.pauses[-1]

    def send(self, write: StateWrite, outcome: Outcome) -> bool:
        self.sent.append(write)
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        if answer is self.WAITS:
            self.waiting.append(outcome)
        return answer is None

    def write(self, write: StateWrite) -> None:
        def then() -> None:
            self.told += 1

        self.writes.write(write, then)

    def time_passes(self) -> None:
        self.pauses.pop(0).callback()


def test_what_is_stored_is_written_once() -> None:
    bench = Bench(None)
    bench.write(CHANGE)
    assert (bench.sent, bench.told, bench.writes.is_ahead, bench.pauses) == ([CHANGE], 1, False, [])


def test_what_was_refused_is_written_again_as_the_window_is_by_then() -> None:
    bench = Bench(CoordinatorNotAvailable(), CoordinatorNotAvailable(), None)
    bench.write(CHANGE)
    assert (bench.told, bench.writes.is_ahead) == (1, True)
    bench.time_passes()
    assert bench.writes.is_ahead
    bench.time_passes()
    assert (bench.sent, bench.writes.is_ahead, bench.pauses) == ([CHANGE, WHOLE, WHOLE], False, [])
    assert bench.told == 1


def test_a_start_offset_that_nobody_has_set_is_written_again_as_that() -> None:
    start = StateWrite(3, -1)
    bench = Bench(CoordinatorNotAvailable(), None)
    bench.write(start)
    bench.time_passes()
    assert bench.sent == [start, start]


def test_a_change_that_is_refused_after_a_start_offset_comes_with_it() -> None:
    bench = Bench(CoordinatorNotAvailable(), CoordinatorNotAvailable(), None)
    bench.write(StateWrite(3, -1))
    bench.write(CHANGE)
    assert len(bench.pauses) == 1
    bench.time_passes()
    assert (bench.sent[-1], bench.writes.is_ahead) == (WHOLE, False)


def test_what_fails_on_its_way_to_the_disk_is_written_again() -> None:
    bench = Bench(Bench.WAITS, None)
    bench.write(CHANGE)
    assert (bench.told, bench.writes.is_ahead) == (0, False)
    bench.waiting[0](CoordinatorNotAvailable())
    assert (bench.told, bench.writes.is_ahead) == (1, True)
    bench.time_passes()
    assert (bench.sent, bench.writes.is_ahead) == ([CHANGE, WHOLE], False)


def test_nothing_is_written_again_for_a_window_that_is_gone() -> None:
    bench = Bench(CoordinatorNotAvailable())
    bench.write(CHANGE)
    bench.writes.close()
    assert [pause.is_cancelled for pause in bench.pauses] == [True]


def test_what_is_refused_after_the_window_was_thrown_away_is_not_written_over_the_next_one() -> None:
    """Throwing a window away is what a refusal by another broker leads to, so it comes before the word of it."""
    bench = Bench(Bench.WAITS)
    bench.write(CHANGE)
    bench.writes.close()
    bench.waiting.pop()(CoordinatorNotAvailable())
    assert (bench.sent, bench.told, bench.pauses) == ([CHANGE], 1, [])


def test_all_is_stored_when_no_write_is_under_way_and_none_was_refused() -> None:
    bench = Bench(Bench.WAITS, Bench.WAITS, None)
    heard: list[KafkaError | None] = []
    assert bench.writes.is_stored
    assert not bench.writes.send(CHANGE, heard.append)
    bench.write(CHANGE)
    assert not bench.writes.is_stored
    bench.waiting[0](None)
    assert (heard, bench.writes.is_stored) == ([None], False)
    bench.waiting[1](CoordinatorNotAvailable())
    assert not bench.writes.is_stored
    bench.time_passes()
    assert (bench.sent, bench.writes.is_stored) == ([CHANGE, CHANGE, WHOLE], True)


def test_a_window_that_has_moved_with_its_log_is_stored_with_the_next_write() -> None:
    bench = Bench(None, Bench.WAITS)
    heard: list[KafkaError | None] = []
    bench.writes.has_moved()
    assert not bench.writes.is_stored
    assert bench.writes.send(CHANGE, heard.append)
    assert bench.writes.is_stored
    bench.writes.has_moved()
    bench.writes.send(CHANGE, heard.append)
    bench.waiting[0](CoordinatorNotAvailable())
    assert not bench.writes.is_stored
