"""Tables are in the order that their reader has chosen."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.console.sorting import ordered, reverse_of

ROWS: list[dict[str, Any]] = [{"name": "b", "lag": 5}, {"name": "a", "lag": None}, {"name": "c", "lag": 50}]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [("name", "abc"), ("-name", "cba"), ("lag", "cba"), ("-lag", "bca"), ("", "abc"), ("--name", "abc"), ("x", "abc")],
)
def test_numbers_begin_with_the_largest_words_with_the_first_and_the_unknown_is_last(wanted: str, names: str) -> None:
    assert "".join(row["name"] for row in ordered(ROWS, wanted, ("name", "lag"), "name")[0]) == names


def test_a_second_click_reverses() -> None:
    assert reverse_of("name", "lag") == "lag"
    assert reverse_of("lag", "lag") == "-lag"
    assert reverse_of("-lag", "lag") == "lag"
