"""Deadlines by key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.timers import TimerKey, TimerKind, Timers


def key(name: str) -> TimerKey:
    return TimerKey(TimerKind.CLASSIC_SESSION, "group", name)


def test_timers_come_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    for name, deadline_ms in (("b", 20), ("a", 10), ("c", 30)):
        timers.schedule(key(name), deadline_ms)
    assert timers.next_deadline_ms() == 10
    assert [timers.pop_due(25), timers.pop_due(25), timers.pop_due(25)] == [key("a"), key("b"), None]


def test_a_timer_that_is_set_again_has_moved() -> None:
    timers = Timers()
    timers.schedule(key("a"), 10)
    timers.schedule(key("a"), 50)
    timers.schedule_if_absent(key("a"), 5)
    assert timers.pop_due(49) is None
    assert timers.deadline_ms(key("a")) == 50
    assert timers.pop_due(50) == key("a")
    assert not timers.is_scheduled(key("a"))


def test_a_cancelled_timer_never_comes() -> None:
    timers = Timers()
    timers.schedule(key("a"), 10)
    timers.cancel(key("a"))
    timers.cancel(key("never set"))
    assert timers.next_deadline_ms() is None


def test_endless_heartbeats_do_not_fill_memory() -> None:
    timers = Timers()
    for now_ms in range(10_000):
        timers.schedule(key(str(now_ms % 3)), now_ms + 1_000)
    assert len(timers._heap) < 100


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50), st.booleans()), max_size=60))
def test_agrees_with_a_plain_dictionary(steps: list[tuple[str, int, bool]]) -> None:
    timers = Timers()
    model: dict[str, int] = {}
    for name, deadline_ms, cancel in steps:
        if cancel:
            timers.cancel(key(name))
            model.pop(name, None)
        else:
            timers.schedule(key(name), deadline_ms)
            model[name] = deadline_ms
        assert timers.next_deadline_ms() == min(model.values(), default=None)
    while (due := timers.pop_due(25)) is not None:
        assert model.pop(due.member_id) <= 25
    assert all(deadline_ms > 25 for deadline_ms in model.values())
