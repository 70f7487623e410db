from __future__ import annotations

import pytest

from penstock.testing import VirtualClock


class Alarm:
    """Wants to be called at each of its times once."""

    def __init__(self, name: str, *times: int) -> None:
        self.name = name
        self.times = list(times)

    def next_deadline_ms(self) -> int | None:
        return self.times[0] if self.times else None

    def tick(self, now_ms: int) -> str:
        due = self.times.pop(0)
        return f"{self.name} due {due} at {now_ms}"


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(100)
    assert (clock.now_ms, clock()) == (100, 100)
    clock.advance(50)
    assert clock.now_ms == 150


def test_machines_are_ticked_at_their_deadlines_in_order() -> None:
    clock = VirtualClock(0)
    rang = clock.advance(100, Alarm("a", 10, 60, 200), Alarm("b", 30, 60))
    assert rang == ["a due 10 at 10", "b due 30 at 30", "a due 60 at 60", "b due 60 at 60"]
    assert clock.now_ms == 100


def test_a_deadline_that_has_passed_is_met_at_once() -> None:
    clock = VirtualClock(500)
    assert clock.advance(1, Alarm("late", 20)) == ["late due 20 at 500"]


def test_jumping_to_the_next_deadline() -> None:
    clock = VirtualClock(0)
    assert clock.advance_to_deadline(Alarm("a", 3_600_000)) == "a due 3600000 at 3600000"
    with pytest.raises(LookupError, match="waits for nothing"):
        clock.advance_to_deadline(Alarm("idle"))


def test_a_machine_that_never_stops_asking_is_reported() -> None:
    class Stuck:
        def next_deadline_ms(self) -> int:
            return 5

        def tick(self, now_ms: int) -> None:
            return None

    with pytest.raises(RuntimeError, match="again and again"):
        VirtualClock(0).advance(10, Stuck())


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        VirtualClock().advance(-1)
