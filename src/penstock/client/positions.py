"""Where to start reading: finds the position of every partition that has none.

The position is the group's committed offset or, without one, follows from `auto_offset_reset` (or from the time that a
seek requested), looked up at the partition's leader. One search at a time runs in the background. It starts whenever a
position turns out to be missing; a partition that was given up or sought meanwhile ignores the result.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.client.cluster import Cluster
from penstock.client.config import ConsumerConfig
from penstock.client.errors import LogTruncation, NoOffsetForPartition
from penstock.client.fetcher import Fetcher
from penstock.client.offsets import fetch_committed, list_offsets
from penstock.client.resets import reset_timestamp
from penstock.client.subscription import PartitionState, Subscription
from penstock.client.truncation import Verdict
from penstock.client.types import IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition

_log = logging.getLogger("penstock.client")


class Positions:
    def __init__(self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._isolation = IsolationLevel[config.isolation_level.upper()]
        self._fetcher: Fetcher | None = None
        self._search: asyncio.Task[None] | None = None
        self._closed = False

    def settle_with(self, fetcher: Fetcher) -> None:
        """Tell `fetcher` when positions were found, or could not be."""
        self._fetcher = fetcher

    async def close(self) -> None:
        self._closed = True
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)

    def locate(self) -> None:
        """Search, if a position is missing and no search is under way."""
        if self._search is None and not self._closed and any(self._subscription.without_position()):
            self._search = asyncio.create_task(self._find())
            self._search.add_done_callback(self._found)

    def _found(self, task: asyncio.Task[None]) -> None:
        self._search = None
        if task.cancelled() or self._fetcher is None:
            return
        error = task.exception()
        if isinstance(error, Exception):
            self._fetcher.error = error
        self._fetcher.arrived.set()
        self._fetcher.kick()

    async def wait_for(self, state: PartitionState) -> None:
        """Return when a partition has a position; raise why it cannot have one."""
        fetcher = self._fetcher
        assert fetcher is not None
        while state.position is None:
            self.locate()
            if self._search is not None:
                await asyncio.wait([self._search])
            if fetcher.error is not None:
                error, fetcher.error = fetcher.error, None
                raise error

    def out_of_range(self, state: PartitionState) -> None:
        """The broker has no such offset (any more): start over by the policy, or let poll raise."""
        target = reset_timestamp(self._config.auto_offset_reset)
        fetcher = self._fetcher
        assert fetcher is not None
        if target is None:
            fetcher.error = NoOffsetForPartition(
                f"{state.tp} has no offset {state.fetched_to} (any more) and auto_offset_reset is none; seek to one"
            )
            fetcher.arrived.set()
            state.retry_at = asyncio.get_running_loop().time() + self._config.retry_backoff_max_ms / 1000
            return
        _log.info("%s has no offset %d (any more); starting over by auto_offset_reset", state.tp, state.fetched_to)
        self._subscription.seek_by_time(state, target)
        fetcher.recount()
        self.locate()

    def truncated(self, verdict: Verdict) -> None:
        """Records before the position are gone, others may have taken their offsets: go back to where the log was cut
        (or start over by the policy, if that is not known), or let poll raise."""
        state, end = verdict
        target = reset_timestamp(self._config.auto_offset_reset)
        fetcher = self._fetcher
        assert fetcher is not None
        assert state.position is not None
        if target is None:
            fetcher.error = LogTruncation(state.tp, state.position, None if end is None else end.offset)
            fetcher.arrived.set()
            state.retry_at = asyncio.get_running_loop().time() + self._config.retry_backoff_max_ms / 1000
            return
        place = "an unknown offset" if end is None else f"offset {end.offset}"
        _log.warning("%s was truncated at %s, before the position %d", state.tp, place, state.position)
        if end is None:
            self._subscription.seek_by_time(state, target)
        else:
            self._subscription.seek(state, end.offset, end.leader_epoch)
        fetcher.recount()
        self.locate()

    async def _find(self) -> None:
        waiting = [(state, state.serial) for state in self._subscription.without_position()]
        unknown = [state.tp for state, _ in waiting if state.reset_to is None]
        committed: dict[TopicPartition, OffsetAndMetadata] = {}
        if unknown and self._config.group_id:
            # As Kafka does: wait for transactions that are about to commit offsets (KIP-447).
            committed = await fetch_committed(self._cluster, self._config.group_id, unknown, require_stable=True)
        by_time: dict[TopicPartition, int] = {}
        for state, serial in waiting:
            if not self._still_waits(state, serial):
                continue
            if state.reset_to is None and state.tp in committed:
                place = committed[state.tp]
                self._subscription.seek(state, place.offset, place.leader_epoch, is_unchecked=True)
                continue
            target = state.reset_to if state.reset_to is not None else reset_timestamp(self._config.auto_offset_reset)
            if target is None:
                raise NoOffsetForPartition(
                    f"{state.tp} has no committed offset and auto_offset_reset is none; seek, or set it to "
                    "earliest or latest"
                )
            by_time[state.tp] = target
        if not by_time:
            return
        found = await list_offsets(self._cluster, by_time, self._isolation)
        late = {tp: int(OffsetSpec.LATEST) for tp, place in found.items() if place.offset < 0}
        if late:
            found |= await list_offsets(self._cluster, late, self._isolation)
        for state, serial in waiting:
            if state.tp in found and self._still_waits(state, serial):
                self._subscription.seek(state, found[state.tp].offset, found[state.tp].leader_epoch)

    def _still_waits(self, state: PartitionState, serial: int) -> bool:
        return self._subscription.current(state.tp, serial) is state and state.position is None
