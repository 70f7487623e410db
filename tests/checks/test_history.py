"""Histories as JSON lines."""

from __future__ import annotations

import pytest

from penstock.checks import check
from penstock.checks.history import REQUIRED, HistoryError, read_history


def test_operations_know_their_lines() -> None:
    lines = ['{"op": "drained"}', "", '{"op": "moved", "process": "c"}']
    assert [(each["op"], each["line"]) for each in read_history(lines)] == [("drained", 1), ("moved", 3)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"op": "sned"}', "line 1: 'sned' is no operation"),
        ("{}", "line 1: None is no operation"),
        ('{"op": "txn-end", "txn": "x"}', "line 1: txn-end needs the field 'result'"),
    ],
)
def test_what_is_no_operation_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        list(read_history([line]))


@pytest.mark.parametrize(
    "line",
    [
        '{"op": "poll", "process": "c", "records": [["t", 0]]}',
        '{"op": "poll", "process": "c", "records": [["t", 0, "x", "v"]]}',
        '{"op": "send", "process": "p", "topic": [], "partition": {}, "value": "v", "result": "ok", "offset": 1}',
    ],
)
def test_a_field_of_another_kind_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(HistoryError, match=r"line 2: a field of (poll|send) is unfit"):
        check(read_history(['{"op": "drained"}', line]))


def test_every_operation_is_described() -> None:
    import penstock.checks.history as module

    assert module.__doc__ is not None
    for op in REQUIRED:
        assert f'"op": "{op}"' in module.__doc__
