"""The unacknowledged records of a share consumer, and the renewal of their locks.

A lock expires after the time that the broker sent with the records, and then another worker gets them. While a program
handles a record (`hold`, `run`), its lock is therefore renewed in good time (KIP-1222), together with the locks of all
records that wait behind it: the next ones of the same poll, and those that were fetched ahead. Each broker gets one
request for all of them.

If one record of a partition in a request is no longer locked, the broker refuses all of that partition, and does not
say which one it was. Records whose locks have expired are therefore left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from penstock.client.errors import IllegalState
from penstock.client.share_acknowledgements import Acknowledgements, runs_of
from penstock.client.share_session import Runs, ShareSession, TopicIdPartition
from penstock.client.types import ConsumerRecord, K, TopicPartition, V
from penstock.wire.errors import InvalidRecordState, KafkaError, UnsupportedVersion

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

    def add(
        self, session: ShareSession, tp: TopicPartition, partition: TopicIdPartition, runs: Runs, locked_at: float
    ) -> None:
        acks = session.acknowledgements(partition)
        newest = self.newest.setdefault(tp.topic, {})
        if newest.get(tp.partition) is not acks:
            several = [held for held in self._held.get(tp, ()) if held.acks.types and held.acks is not acks]
            self._held[tp] = [Held(session, partition, acks), *several]
            newest[tp.partition] = acks
        until = locked_at + session.lock_timeout_ms / 1000
        for first, last in runs:
            acks.await_decision(first, last)
            acks.locked(first, last, until)

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

    async def renew(self, records: Iterable[ConsumerRecord[K, V]]) -> None:
        """Start lock times anew; raises what could not be renewed after the rest was."""
        sessions: dict[ShareSession, dict[TopicPartition, tuple[Held, set[int]]]] = {}
        for record in records:
            tp = record.topic_partition
            held = self.find(tp, record.offset)
            if held is None:
                raise IllegalState(f"the record at {tp} offset {record.offset} is not locked by this consumer")
            sessions.setdefault(held.session, {}).setdefault(tp, (held, set()))[1].add(record.offset)
        failures: list[KafkaError] = []
        for session, chosen in sessions.items():
            await renew_locks(session, partial(_still_locked, chosen, failures), failures)
        if failures:
            raise failures[0]


def _still_locked(
    chosen: dict[TopicPartition, tuple[Held, set[int]]], failures: list[KafkaError]
) -> dict[TopicIdPartition, Runs]:
    """What there is to renew of `chosen` by now: one that was decided, and the decision sent, needs no lock, and one
    whose lock ran out would fail the others.
    """
    found: dict[TopicIdPartition, Runs] = {}
    now = asyncio.get_running_loop().time()
    for tp, (held, offsets) in chosen.items():
        undone = offsets & held.acks.types.keys()
        lost = undone & held.acks.run_out(now)
        if lost:
            places = ", ".join(f"{first} to {last}" for first, last in runs_of(sorted(lost)))
            failures.append(InvalidRecordState(f"the locks of {tp} offsets {places} have run out"))
        if undone != lost:
            found[held.partition] = runs_of(sorted(undone - lost))
    return found


async def renew_locks(
    session: ShareSession, choose: Callable[[], dict[TopicIdPartition, Runs]], failures: list[KafkaError]
) -> set[TopicIdPartition]:
    """Renew what is chosen; what goes wrong is added to `failures`, so that other brokers' locks are renewed too."""
    try:
        outcome = await session.renew(choose)
    except KafkaError as error:
        failures.append(error)
        return set()
    failures += [error for error in outcome.values() if error is not None]
    return {partition for partition, error in outcome.items() if error is None}


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
