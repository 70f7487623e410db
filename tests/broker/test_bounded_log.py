"""What strangers can cause does not fill the log."""

from __future__ import annotations

import logging

import pytest

from penstock.broker.bounded_log import BoundedLog

LOG = logging.getLogger("penstock.test")


def test_after_so_many_lines_only_their_number_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    bounded = BoundedLog(LOG, lambda: now[0], "failures")
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            bounded.warning("failure %d", number)
        assert len(caplog.messages) == 20
        now[0] = 11.0
        bounded.warning("failure %d", 1000)
    assert caplog.messages[20:] == ["980 more failures", "failure 1000"]
