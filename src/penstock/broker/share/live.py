"""One share-partition at work: the window, the log below it, the fetches that wait for it, and its clock.

Whoever changes the window here also does what the change asks for: the write to the share coordinator, the dead
letters, the timer for the next lock that runs out, and waking those who wait. Nothing in this module awaits, so each of
these is one step that nobody can come between. Where the share coordinator is on another broker, the window runs ahead
of its writes, and is thrown away when one fails (`elsewhere`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.share.reading import LogReader, NotInMemory
from penstock.broker.share.workers import Workers
from penstock.broker.share.writes import StateWrites
from penstock.broker.topics import Partition
from penstock.guard import attempt
from penstock.queues.acknowledgements import count_by_type
from penstock.queues.assembly import Assembled, BatchCache
from penstock.queues.cells import ACQUIRED_CELLS, number_in
from penstock.queues.discovery import delivery_times, discover
from penstock.queues.settings import ShareSettings
from penstock.queues.share_partition import SharePartition
from penstock.queues.state import UNKNOWN
from penstock.queues.transitions import AcknowledgementBatch, AcquiredRange, StateWrite, Transition, Unreadable
from penstock.queues.waiting import WaitingFetches
from penstock.records.batch import Buffer, CorruptBatch, crc_is_valid, parse_header
from penstock.records.record import Record, iter_batches_records
from penstock.storage.contract import IsolationLevel
from penstock.wire.errors import KafkaError, OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.broker.share.configs import ShareConfigs
    from penstock.broker.share.coordinator import Outcome, Ownership, ShareCoordinator
    from penstock.broker.share.dead_letters import DeadLetters
    from penstock.broker.share.fetch import ShareFetch
    from penstock.broker.share.metrics import ShareMetrics
    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.share")

_READ_BYTES_MIN = 64 << 10
_READ_BYTES_MAX = 4 << 20
_RECORD_BYTES_GUESS = 512


def steady_ms(world: World) -> int:
    """The time of locks and delays: they do not outlive the process, and a clock that is set must not end them."""
    return int(world.monotonic() * 1000)


class Prepared(NamedTuple):
    """Records chosen for a fetch, not yet acquired."""

    live: LiveSharePartition
    assembled: Assembled
    settings: ShareSettings


class LiveSharePartition:
    def __init__(
        self,
        ownership: Ownership,
        partition: Partition,
        core: SharePartition,
        *,
        world: World,
        configs: ShareConfigs,
        coordinator: ShareCoordinator,
        dead_letters: DeadLetters,
        metrics: ShareMetrics,
        cache_bytes_max: Callable[[], int],
    ) -> None:
        self.key = ownership.key
        self.state_partition = ownership.state_partition
        self.partition = partition
        self.core = core
        self._ownership = ownership
        self._world = world
        self._configs = configs
        self._coordinator = coordinator
        self._dead_letters = dead_letters
        self._metrics = metrics
        self.waiting: WaitingFetches[ShareFetch] = WaitingFetches()
        self.lock_timeouts = 0
        self.workers = Workers()
        self._cache = BatchCache(cache_bytes_max)
        self._record_bytes = _RECORD_BYTES_GUESS
        self._reader = LogReader(partition.log, world, self._warmed_up)
        self._on_warm: list[Callable[[], None]] = []
        self._isolation = IsolationLevel.READ_UNCOMMITTED
        self._unknown_from: int | None = None
        """From here on nobody has looked yet which offsets of the window hold a record."""
        self._serving_soon = False
        self._writes = StateWrites(world, self._send_write, core.whole_state)
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._closed = False
        self._begin_to_look_over(self.settings())

    @property
    def group_id(self) -> str:
        return self.key[0]

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_idle(self) -> bool:
        """Whether forgetting it loses nothing: no record is held, none waits out a delay, nobody waits for it, and all
        that it knows is stored."""
        is_at_rest = self.core.next_deadline_ms() is None and not self._writes.is_ahead
        return is_at_rest and not len(self.waiting) and not self._on_warm

    def settings(self) -> ShareSettings:
        return self._configs.settings(self.group_id)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._writes.close()
        self.partition.waiters.pop(self, None)

    # -- acquiring -------------------------------------------------------------------------------------------------

    def prepare(self, fetch: ShareFetch, max_records: int, max_bytes: int) -> Prepared | None:
        """Choose records for a fetch: a fair part of what is there. Nothing is acquired yet."""
        settings = self.settings()
        while (acquirable := self.acquirable(settings)) > 0:
            part = self.waiting.fair_part(fetch, max_records, acquirable)
            self._grow(part, settings)
            chosen = self.core.select(part, settings)
            if not chosen:
                return None
            try:
                assembled = self._cache.assemble(chosen, max_bytes, self._load)
            except NotInMemory:
                return None
            if assembled.is_complete:
                return Prepared(self, assembled, settings) if assembled.ranges else None
            self._let_go(assembled.absent, assembled.unreadable, settings)
        return None

    def take(self, prepared: Prepared, member_id: str) -> list[AcquiredRange]:
        settings = prepared.settings
        taken = self.core.take(
            member_id, prepared.assembled.ranges, steady_ms(self._world), settings.record_lock_duration_ms
        )
        delivered = sum([last - first + 1 for first, last, _ in taken])
        self._metrics.deliveries[self.group_id, self.partition.topic.name] += delivered
        self.workers.delivered(member_id, delivered, self._world.monotonic())
        self._arm()
        return taken

    def acquirable(self, settings: ShareSettings) -> int:
        """About how many records could be acquired now: in the window, and in the log behind it."""
        self._follow_log(settings)
        core = self.core
        if self._unknown_from is not None:
            return 0
        return core.available(settings) + min(core.room(settings), max(0, self._log_bound() - core.end_offset))

    def _log_bound(self) -> int:
        partition_log = self.partition.log
        return partition_log.last_stable_offset if self._isolation else partition_log.high_watermark

    def _follow_log(self, settings: ShareSettings) -> None:
        if self._move_start():
            self._cache_follows()
        if _isolation(settings) != self._isolation:
            self.core.forget_undelivered_tail()
            self._cache.clear()
            self._begin_to_look_over(settings)
        elif self._unknown_from is not None:
            self._look_over(settings)
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= steady_ms(self._world):
            self.tick()

    def _grow(self, size: int, settings: ShareSettings) -> None:
        """Take records of the log into the window until there are enough, the window is full, or the log ends."""
        core = self.core
        bound = self._log_bound()
        while core.end_offset < bound and core.available(settings) < size:
            room = core.room(settings)
            if room == 0:
                return
            limit = min(core.end_offset + room, bound)
            cached = self._cache.at(core.end_offset)
            if cached is not None and cached.holes is not None:
                begin, end = core.end_offset, min(cached.last_offset + 1, limit)
                core.extend(end, cached.holes)
                if settings.delivery_time_header:
                    self._delay_delivery(begin, end, cached.raw, settings)
            elif not self._read_on(limit, settings):
                return

    def _read_on(self, limit: int, settings: ShareSettings) -> bool:
        core = self.core
        size = min(_READ_BYTES_MAX, max(_READ_BYTES_MIN, (limit - core.end_offset) * self._record_bytes))
        try:
            found = self._reader.read(core.end_offset, size, self._isolation)
        except NotInMemory:
            return False
        data = found.read()
        if not data:
            # The log ends in offsets whose batches compaction has removed.
            core.extend(limit, [(core.end_offset, limit - 1)])
            return True
        discovered = discover(data, core.end_offset, found.aborted or (), limit)
        view = memoryview(data)
        for header, position, holes in discovered.batches:
            self._cache.put(header, view[position : position + header.size], holes)
            self._record_bytes = max(1, header.size // max(1, header.records_count))
        end = min(discovered.end_offset, limit)
        if end <= core.end_offset:
            raise CorruptBatch(f"the batch at offset {end} has a broken header")
        begin = core.end_offset
        core.extend(end, discovered.absent)
        self._archive_unreadable(discovered.unreadable, settings)
        if settings.delivery_time_header:
            for header, position, _ in discovered.batches:
                self._delay_delivery(begin, end, view[position : position + header.size], settings)
        return True

    def _delay_delivery(self, begin: int, end: int, batch: Buffer, settings: ShareSettings) -> None:
        """Records of a batch that have just entered the window and name a time before which they are not delivered."""
        now_ms = self._world.now_ms()
        try:
            times = delivery_times(batch, settings.delivery_time_header)
        except CorruptBatch as error:
            header = parse_header(batch)
            self._archive_unreadable([Unreadable(header.base_offset, header.last_offset, str(error))], settings)
            return
        for offset, ready_ms in times:
            if begin <= offset < end and ready_ms > now_ms:
                self.core.delay_delivery(offset, offset, steady_ms(self._world) + ready_ms - now_ms)
        self._arm()

    def _move_start(self) -> bool:
        """Begin where the log begins, if that is later."""
        log_start_offset = self.partition.log.log_start_offset
        if log_start_offset <= self.core.start_offset:
            return False
        self.core.move_start(log_start_offset)
        self._writes.has_moved()
        return True

    def _begin_to_look_over(self, settings: ShareSettings) -> None:
        """Find out anew which offsets of the window hold no record: after a restart, or under another isolation."""
        self._isolation = _isolation(settings)
        self._move_start()
        self._unknown_from = self.core.start_offset
        self._look_over(settings)

    def _look_over(self, settings: ShareSettings) -> None:
        """Go on until the whole window is known, or until a thread has to read first."""
        assert self._unknown_from is not None
        self._metrics.tallies.changed(self)
        offset, end = max(self._unknown_from, self.core.start_offset), min(self.core.end_offset, self._log_bound())
        self._unknown_from = None
        while offset < end:
            try:
                found = self._reader.read(offset, _READ_BYTES_MAX, self._isolation)
            except NotInMemory:
                self._unknown_from = offset
                return
            data = found.read()
            discovered = discover(data, offset, found.aborted or (), end)
            if not data or discovered.end_offset <= offset:
                self.core.mark_absent([(offset, end - 1)])
                return
            self.core.mark_absent(discovered.absent)
            self._archive_unreadable(discovered.unreadable, settings)
            if settings.delivery_time_header:
                view = memoryview(data)
                for header, position, _ in discovered.batches:
                    self._delay_delivery(offset, end, view[position : position + header.size], settings)
            offset = discovered.end_offset

    def _load(self, offset: int) -> Buffer:
        try:
            return self._reader.read(offset, _READ_BYTES_MIN).read()
        except OffsetOutOfRange:
            return b""

    def _let_go(
        self, absent: Sequence[tuple[int, int]], unreadable: Sequence[Unreadable], settings: ShareSettings
    ) -> None:
        """Records that were chosen turn out to be gone from the log, or to be in a batch that nobody can open."""
        start_offset = self.core.start_offset
        self.core.mark_absent(absent)
        if self.core.start_offset > start_offset:
            self._writes.write(StateWrite(self.core.start_offset, self.core.delivery_complete_count))
            self._cache_follows()
        self._archive_unreadable(unreadable, settings)

    def _archive_unreadable(self, batches: Iterable[Unreadable], settings: ShareSettings) -> None:
        """Give up what cannot be delivered, and say so: everybody else's records go on."""
        for first, last, reason in batches:
            transition = self.core.archive_unreadable(first, last, settings)
            if transition is None:
                continue
            number = sum(len(change.after) for change in transition.changes)
            log.error(
                "%d records of %s-%d are archived for group %r: the batch of offsets %d to %d is unreadable: %s",
                number,
                self.partition.topic.name,
                self.key[2],
                self.group_id,
                first,
                last,
                reason,
            )
            self._metrics.unreadable[self.group_id] += number
            self._follow_up(transition, settings)

    # -- acknowledging ---------------------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch], outcome: Outcome) -> None:
        """Take a member's answer; the outcome is told when it is as durable as configured."""
        settings = self.settings()
        self._follow_log(settings)
        try:
            transition = self.core.acknowledge(member_id, batches, settings)
        except KafkaError as error:
            outcome(error)
            return
        start_offset = self.core.start_offset
        counts = count_by_type(batches, start_offset)
        self._metrics.acknowledged(counts)
        self.workers.acknowledged(member_id, counts, self._world.monotonic())
        is_over = any(each.first_offset < start_offset for each in batches)
        self._carry_out(transition, settings, outcome, must_write=is_over and not self._writes.is_stored)

    def release(self, member_id: str) -> None:
        """The member's session has ended: its records come back."""
        settings = self.settings()
        transition = self.core.release_member(member_id, settings)
        if transition is not None:
            self._carry_out(transition, settings, _nobody_waits)

    def _carry_out(
        self, transition: Transition, settings: ShareSettings, outcome: Outcome, *, must_write: bool = False
    ) -> None:
        """Write, then commit or roll back; whoever waits on this partition may have something to take now."""
        is_done = True
        if transition.needs_write or must_write:

            def written(error: KafkaError | None) -> None:
                if error is None:
                    self._bury(transition, settings)
                outcome(error)

            try:
                is_done = self._writes.send(transition.write, written)
            except KafkaError as refused:
                self.core.rollback(transition, settings)
                outcome(refused)
                return
        self.core.commit(transition, steady_ms(self._world), settings)
        self._cache_follows()
        if is_done:
            self._bury(transition, settings)
            outcome(None)
        self._arm()
        self.wake()

    def _send_write(self, write: StateWrite, outcome: Outcome) -> bool:
        return self._coordinator.write(self._ownership, self.partition.leader_epoch, write, outcome)

    def _bury(self, transition: Transition, settings: ShareSettings) -> None:
        """Write the letters of what has died, when it is stored that it did: else it might come back and die again."""
        if transition.dead_letters and not self._closed:
            self._dead_letters.bury(self, transition.dead_letters, settings)

    def finish_archiving(self, first: int, last: int) -> None:
        if self._closed:
            return  # whoever has the window now finds it unfinished
        transition = self.core.finish_archiving(first, last)

        def written(error: KafkaError | None) -> None:
            if error is not None:
                self._writes.later(lambda: self.finish_archiving(first, last))

        if transition is not None:
            self._carry_out(transition, self.settings(), written)

    def write_start_offset(self) -> None:
        """Kafka keeps a start offset that it resolved in memory only, and can skip records after a restart.

        That nothing is known to be done (and not: that nothing is done) marks it as one that nobody has set.
        """
        self._writes.write(StateWrite(self.core.start_offset, UNKNOWN))

    def _cache_follows(self) -> None:
        self._metrics.tallies.changed(self)
        self._cache.forget_below(self.core.start_offset)

    def when_warm(self, callback: Callable[[], None]) -> None:
        """Call back when a read that raised NotInMemory is worth another try."""
        self._on_warm.append(callback)

    def _warmed_up(self) -> None:
        if self._closed:
            return
        callbacks, self._on_warm = self._on_warm, []
        for callback in callbacks:
            attempt("burying records that a thread has read", callback)
        self.wake()

    def readable_records(self, first: int, last: int) -> list[Record]:
        """The stored records of a range, as far as the log still has them and they can be read. Raises NotInMemory."""
        records: list[Record] = []
        for part in self._cache.assemble([AcquiredRange(first, last, 0)], 1 << 30, self._load).parts:
            try:
                if crc_is_valid(part, 0, len(part)):
                    records += iter_batches_records(part)
            except CorruptBatch as error:
                log.warning("the dead letters of %r have no contents: %s", self.group_id, error)
        return records

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        settings = self.settings()
        transition = self.core.tick(steady_ms(self._world), settings)
        if transition is not None:
            timed_out = sum(number_in(change.before, ACQUIRED_CELLS) for change in transition.changes)
            self.lock_timeouts += timed_out
            self._metrics.lock_timeouts[self.group_id, self.partition.topic.name] += timed_out
            self._follow_up(transition, settings)
        self._arm()
        self.wake()

    def _follow_up(self, transition: Transition, settings: ShareSettings) -> None:
        """Write down a change that holds already, and bury what died of it."""
        self._writes.write(transition.write, lambda: self._bury(transition, settings))
        self._cache_follows()

    def _arm(self) -> None:
        self._metrics.tallies.changed(self)
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms is None or self._closed:
            return
        if self._timer is not None:
            if deadline_ms >= self._timer_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._world.call_later(max(0, deadline_ms - steady_ms(self._world)) / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= steady_ms(self._world):
            self.tick()
        else:
            self._arm()

    # -- waiting ---------------------------------------------------------------------------------------------------

    def park(self, fetch: ShareFetch) -> None:
        self.waiting.join(fetch)
        self.partition.waiters[self] = None

    def wake(self) -> None:
        """Serve those who wait, soon: once, however much happens until then."""
        if not self._serving_soon and len(self.waiting):
            self._serving_soon = True
            self._world.call_soon(self._serve)

    def _serve(self) -> None:
        self._serving_soon = False
        if self._closed:
            return
        settings = self.settings()
        for _ in range(len(self.waiting)):
            fetch = self.waiting.first()
            if fetch is None or self.acquirable(settings) <= 0:
                break
            if not fetch.try_serve():
                # It wants more bytes than there are: let the others have a look.
                self.waiting.leave(fetch)
                self.waiting.join(fetch)
        if len(self.waiting):
            self.partition.waiters[self] = None


def _nobody_waits(error: KafkaError | None) -> None:
    if error is not None:
        log.warning("the state of a share-partition was not written: %s", error)


def _isolation(settings: ShareSettings) -> IsolationLevel:
    return IsolationLevel.READ_COMMITTED if settings.read_committed else IsolationLevel.READ_UNCOMMITTED
