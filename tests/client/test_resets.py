from __future__ import annotations

import time

import pytest

from penstock.client.errors import UsageError
from penstock.client.resets import reset_timestamp


def test_the_words_of_auto_offset_reset_name_places_in_the_log() -> None:
    assert [reset_timestamp(word) for word in ("earliest", "latest", "none")] == [-2, -1, None]


@pytest.mark.parametrize(("duration", "milliseconds"), [("PT1H", 3_600_000), ("P1DT1S", 86_401_000), ("PT0.5S", 500)])
def test_a_duration_is_counted_back_from_now(duration: str, milliseconds: int) -> None:
    before = int(time.time() * 1000)
    found = reset_timestamp(f"by_duration:{duration}")
    assert found is not None
    assert before - milliseconds <= found <= int(time.time() * 1000) - milliseconds


@pytest.mark.parametrize("policy", ["sometime", "by_duration:1h", "by_duration:P"])
def test_anything_else_is_refused(policy: str) -> None:
    with pytest.raises(UsageError, match="such as"):
        reset_timestamp(policy)
