"""Three parallel columns that grow at the end and shrink at the front."""

from __future__ import annotations

from penstock.queues.window import NO_TICKET, Window


def test_rows_are_added_at_the_end_and_dropped_at_the_front() -> None:
    window = Window(100)
    window.grow(5, 7)
    window.put_tickets(102, 103, 9)
    window.put_companies(100, 104, 1 << 20)
    window.drop(2)
    assert (window.start, window.end, len(window.cells)) == (102, 105, 3)
    assert list(window.tickets) == [9, 9, NO_TICKET]
    assert set(window.companies) == {0xFFFF}, "a company that is too large to write down is simply large"


def test_the_rows_under_a_ticket_are_found_as_ranges() -> None:
    window = Window(10)
    window.grow(10, 1)
    window.put_tickets(11, 13, 5)
    window.put_tickets(15, 19, 5)
    window.cells[7] = 2
    assert window.runs_under(5, 0, 100, b"\x01") == [(11, 13), (15, 16), (18, 19)]
    assert window.runs_under(5, 12, 15, b"\x01") == [(12, 13), (15, 15)]
    assert window.runs_under(6, 0, 100, b"\x01") == []
