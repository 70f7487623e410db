"""Numbers, times and bytes as people read them."""

from __future__ import annotations

import pytest

from penstock.console.formats import about, count, meaning, moment, size, span, trend


@pytest.mark.parametrize(
    ("config", "value", "words"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", ""),
        ("flush.messages", "9223372036854775807", "no limit"),
        ("segment.bytes", "1073741824", "1.0 GiB"),
        ("segment.bytes", "512", ""),
        ("min.cleanable.dirty.ratio", "0.5", ""),
        ("cleanup.policy", "delete", ""),
    ],
)
def test_the_value_of_a_config_is_said_in_words_where_digits_would_have_to_be_counted(
    config: str, value: str, words: str
) -> None:
    assert meaning(config, value) == words


def test_what_is_not_known_is_a_dash() -> None:
    assert {count(-1), count(None), size(None), moment(-1), span(None), trend(None, None)} == {"\N{EN DASH}"}


def test_lengths_of_time_have_two_units_and_estimates_one() -> None:
    assert [span(9.96), span(75), span(3600), span(90_000)] == ["10.0 s", "1 min 15 s", "1 h", "1 d 1 h"]
    assert [about(75), about(150), about(10_000)] == ["75 s", "2 min", "3 h"]


def test_a_lag_is_said_to_grow_to_stand_or_to_shrink() -> None:
    assert trend(100, 5) == "grows by 5/s"
    assert trend(100, 0.0) == "does not move"
    assert trend(100, -10) == "caught up in 10 s"
