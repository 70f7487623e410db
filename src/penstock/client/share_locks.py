"""Records that are locked for this share consumer and not decided yet, and keeping them locked.

A lock runs out after the time that the broker told with the records, and then another worker gets them. So while a
program is at work on a record (`hold`, `run`), its lock is renewed in good time (KIP-1222), and with it the locks of
all that wait behind it: records of the same poll that come next, and those that were fetched ahead. Each broker gets
one request for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.client.share_acknowledgements import Acknowledgements
from penstock.client.share_session import Runs, ShareSession, TopicIdPartition
from penstock.client.types import ConsumerRecord, K, TopicPartition, V
from penstock.wire.errors import KafkaError, UnsupportedVersion

_log = logging.getLogger("penstock.client")

_RENEWALS_PER_LOCK = 3  # a renewal may wait for a parked fetch, and fail once


class Held(NamedTuple):
    """A partition as it is held through one session."""

    session: ShareSession
    partition: TopicIdPartition
    acks: Acknowledgements


class Locks:
    """All records that the program has to decide about, one by one. A partition whose leader moved is held through two
    sessions for a while.
    """

    def __init__(self) -> None:
        self.newest: dict[str, dict[int, Acknowledgements]] = {}  # by topic and partition
        self._held: dict[tuple[str, int], list[Held]] = {}

    def __bool__(self) -> bool:
        """Whether anything is undecided."""
        return any(held.acks.has_undecided for several in self._held.values() for held in several)

    def add(self, session: ShareSession, tp: TopicPartition, partition: TopicIdPartition, runs: Runs) -> None:
        acks = session.acknowledgements(partition)
        newest = self.newest.setdefault(tp.topic, {})
        if newest.get(tp.partition) is not acks:
            several = [held for held in self._held.get(tp, ()) if held.acks.types and held.acks is not acks]
            self._held[tp] = [Held(session, partition, acks), *several]
            newest[tp.partition] = acks
        for first, last in runs:
            acks.await_decision(first, last)

    def find(self, topic_partition: tuple[str, int], offset: int) -> Held | None:
        """How a record is held whose decision was not sent yet."""
        for held in self._held.get(topic_partition, ()):
            if offset in held.acks.types:
                return held
        return None

    def decide(self, record: ConsumerRecord[K, V], kind: int) -> bool:
        """Decide about a record, or decide again; returns whether that was possible."""
        held = self.find(record[:2], record[2])
        if held is None:
            return False
        held.acks.types[record[2]] = kind
        return True


class LockKeeper:
    """Calls `renew` again and again while anybody holds, so that no lock runs out. Costs a timer, not a task each."""

    def __init__(self, lock_timeout_ms: Callable[[], int], renew: Callable[[], Awaitable[None]]) -> None:
        self._lock_timeout_ms = lock_timeout_ms
        self._renew = renew
        self._holders = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._due_at = 0.0

    async def close(self) -> None:
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def locked(self, at: float) -> None:
        """Records were handed out that have been locked since `at`."""
        due = at + self._pause()
        if self._timer is None:
            self._due_at = due
        elif due < self._timer.when():
            self._stop_timer()
            self._wake_at(due)

    @contextmanager
    def hold(self) -> Iterator[None]:
        self._holders += 1
        if self._timer is None:
            self._wake_at(self._due_at)
        try:
            yield
        finally:
            self._holders -= 1

    def _pause(self) -> float:
        return self._lock_timeout_ms() / 1000 / _RENEWALS_PER_LOCK

    def _wake_at(self, when: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(when, self._due)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        if not self._holders:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._renew_quietly())
            self._task.add_done_callback(self._renewed)
        self._wake_at(asyncio.get_running_loop().time() + self._pause())

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._task = None

    async def _renew_quietly(self) -> None:
        try:
            await self._renew()
        except UnsupportedVersion as error:
            _log.warning("locks cannot be renewed, so slow handlers may see records twice: %s", error)
        except KafkaError as error:
            _log.warning("locks were not renewed: %s", error)


def merged(partitions: Iterable[tuple[TopicIdPartition, Runs]]) -> dict[TopicIdPartition, Runs]:
    """Runs of offsets per partition."""
    found: dict[TopicIdPartition, Runs] = {}
    for partition, runs in partitions:
        found.setdefault(partition, []).extend(runs)
    return found
