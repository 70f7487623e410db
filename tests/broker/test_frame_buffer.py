"""Buffers for frames that have not arrived whole."""

from __future__ import annotations

import psutil
import pytest

from penstock.broker.frame_buffer import SMALLEST_MAPPED, new_buffer

PAGE = 4096


@pytest.mark.parametrize("size", [1, SMALLEST_MAPPED - 1, SMALLEST_MAPPED, SMALLEST_MAPPED + 1])
def test_a_frame_fits_and_can_be_written(size: int) -> None:
    buffer = new_buffer(size)
    buffer[:size] = bytes([7]) * size
    assert len(buffer) >= size
    assert buffer[size - 1] == 7


def test_a_frame_that_a_client_only_announces_takes_no_memory() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    buffer = new_buffer(256 << 20)
    buffer[:PAGE] = bytes(PAGE)
    assert process.memory_info().rss - before < 16 << 20
