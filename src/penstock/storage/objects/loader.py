"""Finds out which of the opened logs this broker leads, and has threads load them.

Logs of internal topics come first: whole groups wait for them. The others come some hundreds at a time, so that logs
that are added in between do not wait for all of them. Nor does any log wait for one whose records do not come, but for
an earlier log of the same partition, which was given up while it was loaded into the same folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.log.errors import StorageError
from penstock.storage.objects.commit_log import CommitLog, Layout, PartitionKey, PartitionState
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.takeover import Loaded, OnFailed, OnLoaded
from penstock.threads import Thread, Threads

logger = logging.getLogger("penstock.storage")

_LOOK_SECONDS = 0.05
_LOOK_SECONDS_MAX = 1.0
_LOGS_AT_A_TIME = 500
_LAYOUTS_AT_A_TIME = 100


class Leading(Protocol):
    """What a loader needs to know of its broker."""

    @property
    def node_id(self) -> int: ...

    @property
    def is_alone(self) -> bool: ...


class Loader:
    def __init__(
        self,
        commits: CommitLog,
        broker: Leading,
        is_urgent: Callable[[ObjectLog], bool],
        begin: Callable[[Sequence[tuple[ObjectLog, Layout]], OnLoaded, OnFailed], None],
        adopt: OnLoaded,
        call_soon: Callable[[Callable[[], None]], object],
        threads: Threads,
    ) -> None:
        """`begin` has logs loaded; `adopt` is called in the owner's thread with each that was."""
        self._commits = commits
        self._broker = broker
        self._is_urgent = is_urgent
        self._begin = begin
        self._adopt = adopt
        self._call_soon = call_soon
        self._threads = threads
        self._changed = threads.condition()
        self._wanted: dict[ObjectLog, None] = {}
        """The logs that are not led."""
        self._under_way: set[ObjectLog] = set()
        """Those that are being loaded."""
        self._has_news = False
        self._looking = threads.lock()
        self._thread: Thread | None = None
        self._closing = False

    def add(self, log: ObjectLog) -> None:
        log.wanted_since = time.monotonic()
        with self._changed:
            self._wanted[log] = None
            self._has_news = True
            self._changed.notify_all()

    def look(self) -> None:
        """Look again now: this broker has become the leader of something."""
        with self._changed:
            self._has_news = True
            self._changed.notify_all()

    def remove(self, log: ObjectLog) -> None:
        with self._changed:
            self._wanted.pop(log, None)

    def start(self) -> None:
        self._thread = self._threads.start("penstock-loader", self._run)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def load_now(self, *logs: ObjectLog) -> None:
        """Load these logs too, and lead on return what can be led. Raises StorageError."""
        loaded: list[Loaded] = []
        with self._looking:
            with self._changed:
                self._wanted.update(dict.fromkeys(logs))
                self._has_news = False
            for each in logs:
                each.wanted_since = time.monotonic()
            self._load(loaded.append)
            with self._changed:
                while self._under_way:
                    self._changed.wait()
        for found in loaded:
            self._adopt(found)

    def _run(self) -> None:
        pause = _LOOK_SECONDS
        while True:
            with self._changed:
                while not self._closing and not self._has_news and not self._idle_ones():
                    self._changed.wait()
                if self._closing:
                    return
                if self._has_news:
                    pause = _LOOK_SECONDS
                self._has_news = False
            try:
                with self._looking:
                    self._load(self._hand_over)
            except StorageError as error:
                logger.warning("cannot load the logs that this broker leads: %s", error)
            with self._changed:
                if not self._has_news and not self._closing:
                    self._changed.wait(pause)
                    pause = min(2 * pause, _LOOK_SECONDS_MAX)

    def _idle_ones(self) -> list[ObjectLog]:
        """The logs that are wanted, and into whose folders nothing is being loaded. The lock is held."""
        busy = {(log.topic, log.partition) for log in self._under_way}
        return [log for log in self._wanted if (log.topic, log.partition) not in busy]

    def _hand_over(self, loaded: Loaded) -> None:
        self._call_soon(lambda: self._adopt(loaded))

    def _load(self, done: OnLoaded) -> None:
        """Have those loaded that are led, until there is news."""
        with self._changed:
            idle = self._idle_ones()
        led = self._led(idle)
        urgent = [log for log in led if self._is_urgent(log)]
        others = [log for log in led if not self._is_urgent(log)]
        if urgent:
            self._load_some(urgent, done)
        for at in range(0, len(others), _LOGS_AT_A_TIME):
            with self._changed:
                while len(self._under_way) > _LOGS_AT_A_TIME and not self._has_news and not self._closing:
                    self._changed.wait()
                if self._closing or (at and self._has_news):
                    return
            self._load_some(others[at : at + _LOGS_AT_A_TIME], done)

    def _load_some(self, logs: Sequence[ObjectLog], done: OnLoaded) -> None:
        found: list[tuple[ObjectLog, Layout]] = []
        for at in range(0, len(logs), _LAYOUTS_AT_A_TIME):
            some = logs[at : at + _LAYOUTS_AT_A_TIME]
            layouts = self._commits.layouts([log.key for log in some])
            found += [(log, layouts[log.key]) for log in some if log.key in layouts]
        with self._changed:
            self._under_way.update(log for log, _ in found)

        def is_loaded(loaded: Loaded) -> None:
            with self._changed:
                self._wanted.pop(loaded.wanted, None)
            done(loaded)
            self._ended(loaded.wanted)

        self._begin(found, is_loaded, self._failed)

    def _failed(self, log: ObjectLog, error: Exception) -> None:
        """It is tried again with the next look, unless it was given up, and its folder with it."""
        with self._changed:
            is_wanted = log in self._wanted
        if not is_wanted:
            logger.debug("%s-%d is not wanted any more: %s", log.topic, log.partition, error)
        elif isinstance(error, (StorageError, OSError)):
            if not self._closing:
                logger.error("cannot lead %s-%d: %s", log.topic, log.partition, error)
        else:
            logger.error("cannot lead %s-%d", log.topic, log.partition, exc_info=error)
        self._ended(log)

    def _ended(self, log: ObjectLog) -> None:
        with self._changed:
            self._under_way.discard(log)
            self._changed.notify_all()

    def _led(self, idle: list[ObjectLog]) -> list[ObjectLog]:
        keys = [log.key for log in idle]
        states: dict[PartitionKey, PartitionState]
        if not keys:
            return []
        if self._broker.is_alone:
            states = dict(self._commits.lead(self._broker.node_id, keys))
        else:
            states = dict(self._commits.states(keys))
        return [
            log
            for log in idle
            if (state := states.get(log.key)) is not None
            and state.leader == self._broker.node_id
            and state.leader_epoch >= log.epoch_min
        ]
