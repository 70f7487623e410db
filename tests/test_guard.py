"""Call, log and go on."""

from __future__ import annotations

import logging

import pytest

from penstock import guard
from penstock.storage.contract import StorageError
from penstock.testing import AsyncBroker


def fail(error: Exception) -> None:
    raise error


def test_a_call_that_succeeds_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []
    assert guard.attempt("counting", called.append, 7)
    assert called == [7]
    assert caplog.records == []


def test_a_call_that_fails_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert not guard.attempt("counting", fail, ValueError("no such number"))
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "counting failed"
    assert record.exc_info is not None
    assert "no such number" in caplog.text


def test_a_disk_that_refuses_needs_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert not guard.attempt("retention", fail, StorageError("the disk is full"))
    [record] = caplog.records
    assert record.getMessage() == "retention failed: the disk is full"
    assert record.exc_info is None


def test_being_cancelled_is_not_a_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        guard.attempt("counting", fail, KeyboardInterrupt())  # type: ignore[arg-type]


class Sleeper:
    def __init__(self, awake: list[str], error: Exception | None = None) -> None:
        self._awake = awake
        self._error = error

    def wake(self) -> None:
        self._awake.append("awake")
        if self._error is not None:
            raise self._error


async def test_a_waiter_that_fails_does_not_keep_the_others_asleep() -> None:
    awake: list[str] = []
    async with AsyncBroker() as broker:
        broker.create_topic("t")
        partition = broker._running().parts.cluster.hosted("t", 0)
        partition.waiters.update((Sleeper(awake, ValueError("a fault of this waiter alone")), None) for _ in range(3))
        partition.waiters.update((Sleeper(awake), None) for _ in range(3))
        partition.wake()
    assert awake == ["awake"] * 6
