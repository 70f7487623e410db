"""Moments as people write them."""

from __future__ import annotations

import pytest

from penstock.console.moments import MalformedMoment, milliseconds

NOW = 1_785_585_600.0  # 2026-08-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-08-01T12:00:00", NOW),
        ("2026-08-01T12:00:00Z", NOW),
        ("2026-08-01T14:00:00+02:00", NOW),
        ("2026-08-01", NOW - 12 * 3600),
        ("15m", NOW - 900),
        (" 2 h ago ", NOW - 7200),
        ("1.5d", NOW - 129_600),
        ("30s", NOW - 30),
    ],
)
def test_a_time_or_how_long_ago(text: str, wanted: float) -> None:
    assert milliseconds(text, NOW) == wanted * 1000


@pytest.mark.parametrize("text", ["", "soon", "15", "m", "-5m", "9" * 30, "１５m"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(MalformedMoment, match="2026-08-01T12:00:00"):
        milliseconds(text)
