"""What a setting may have been between a request and its answer; brokers that do not obey are found by mutants."""

from __future__ import annotations

from tests.simulation.administration import Setting


def setting(*changes: tuple[str, float, float | None]) -> Setting:
    made = Setting("limit", "first")
    for value, sent, confirmed in changes:
        if confirmed is None:
            made.changed(value, sent)
        else:
            made.changed(value, sent, confirmed)
    return made


def test_it_is_what_it_began_with_until_a_change_is_sent() -> None:
    assert setting().may_be(1, 2) == ["first"]
    assert setting(("a", 3, 4)).may_be(1, 2) == ["first"]


def test_a_change_may_be_carried_out_at_any_time_until_it_is_confirmed() -> None:
    assert setting(("a", 3, 6)).may_be(4, 5) == ["first", "a"]
    assert setting(("a", 3, 6)).may_be(1, 3) == ["first", "a"]


def test_a_confirmed_change_holds_for_the_next_request() -> None:
    assert setting(("a", 3, 6)).may_be(7, 8) == ["a"]
    assert setting(("a", 3, 6), ("b", 7, 8)).may_be(9, 9) == ["b"]


def test_a_change_of_which_nothing_is_known_may_be_carried_out_much_later() -> None:
    unknown = setting(("a", 3, None), ("b", 5, 6))
    assert unknown.may_be(7, 8) == ["a", "b"]
    assert setting(("a", 3, None)).may_be(1, 2) == ["first"]
