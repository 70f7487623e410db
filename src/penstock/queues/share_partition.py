"""The share-partition: the in-flight window of one partition for one share group (KIP-932).

A log partition is an endless row of records; a share group works through it with many consumers at once. The window is
the piece of the row that is being worked on: it begins at the *start offset* (everything before it is done for good)
and ends where nobody has looked yet. Each record in it is available, acquired by one member under a lock with a
deadline, or done (acknowledged or archived); when the first records of the window are done, the start offset moves over
them. The window is bounded (`group.share.partition.max.record.locks`), so all of it sits in three flat arrays
(`window`), and each step of a range of records is an operation on a slice (`cells`).

The life of the window, as its shell drives it:

1. `extend` lets the window grow over new records of the log, and says which offsets hold nothing to deliver;
2. `select` picks records for a fetch, lowest offsets first, so that released records come before new ones;
   `take` acquires them for a member: one more delivery, one lock;
3. `acknowledge` (and `release_member`, when a session ends) validates everything that was asked, stages it, and says
   what must be written; after the write the shell calls `commit`, or `rollback` when the write failed. Staged records
   can be neither acquired nor acknowledged, and the start offset does not pass them;
4. `tick` ends locks and delays whose time is up. That is applied at once and kept even if the write fails: a record
   must come back although its storage limps.

How the producer batched its records plays no part in any of this. Apache Kafka acquires whole producer batches; here a
fetch gets at most the records it asked for, and the shell cuts the batches for the answer.

Suspect records (KAFKA-17541): a record that was delivered half as often as it may be might be the one that kills its
consumers. From then on it travels with half the company it had the last time, nothing before it and nothing after it,
and at its last attempt alone, so that one poison record does not take its neighbors to the archive.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from penstock.queues import cells as c
from penstock.queues.cells import RecordState
from penstock.queues.locks import LockTable
from penstock.queues.settings import RetryBackoff, ShareSettings
from penstock.queues.transitions import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRange,
    Change,
    DeadLetterCause,
    DeadLetterRange,
    RecordsView,
    StateBatch,
    StateWrite,
    Transition,
)
from penstock.queues.window import NO_TICKET, Window
from penstock.wire.errors import InvalidRecordState, InvalidRequest

_DELAYED_CELLS = c.cells_in(RecordState.DELAYED)


class SharePartition:
    def __init__(self, start_offset: int) -> None:
        self._window = Window(start_offset)
        self._acquired_end = start_offset
        self._locks = LockTable()
        self._delays: list[tuple[int, int, int, int]] = []
        self._last_ticket = NO_TICKET
        self._search_from = start_offset
        self._delivery_count_limit = 0

    @classmethod
    def restore(cls, start_offset: int, batches: Iterable[StateBatch]) -> SharePartition:
        """The window as the share coordinator remembers it.

        Offsets between the batches were acquired once and never answered for, so they are available, as never
        delivered: acquiring is not written down (KIP-932 trades an exact count for one write less per delivery).
        """
        partition = cls(start_offset)
        window = partition._window
        for batch in sorted(batches):
            first = max(batch.first_offset, start_offset)
            if batch.last_offset < first:
                continue
            if first < window.end:
                raise ValueError(f"state batches overlap at offset {first}")
            window.grow(first - window.end, c.FRESH)
            state = RecordState(batch.delivery_state)
            if state is RecordState.ACQUIRED:
                state = RecordState.AVAILABLE
            window.grow(batch.last_offset - first + 1, c.cell(state, batch.delivery_count))
        partition._acquired_end = window.end
        partition._advance_start()
        return partition

    @property
    def start_offset(self) -> int:
        return self._window.start

    @property
    def end_offset(self) -> int:
        """The offset after the last one that the window knows."""
        return self._window.end

    @property
    def acquired_end_offset(self) -> int:
        """The offset after the last one that was ever acquired."""
        return self._acquired_end

    @property
    def in_flight(self) -> int:
        """Kafka's InFlightMessageCount: the span of offsets from the start to the last acquired one."""
        return max(0, self._acquired_end - self._window.start)

    @property
    def delivery_complete_count(self) -> int:
        return c.number_in(self._window.cells, c.TERMINAL_CELLS)

    @property
    def locks(self) -> int:
        return len(self._locks)

    @property
    def tally(self) -> tuple[int, int]:
        """Records in flight, and records that are held: for metrics, which look at tens of thousands of windows."""
        return self._acquired_end - self._window.start, self._locks.held

    def held_by_member(self) -> dict[str, int]:
        return self._locks.members()

    def oldest_held_ms(self) -> dict[str, int]:
        """By member, since when it has held the oldest of its records."""
        return self._locks.oldest_ms()

    def next_lock_end_ms(self) -> dict[str, int]:
        """By member, when the first of its locks ends."""
        return self._locks.next_end_ms()

    # Growing with the log, and shrinking with it

    def room(self, settings: ShareSettings) -> int:
        """How many more offsets the window may take in."""
        return max(0, settings.max_record_locks - len(self._window.cells))

    def extend(self, end_offset: int, absent: Iterable[tuple[int, int]] = ()) -> None:
        """Take the offsets up to (not including) the end offset into the window; absent ranges hold no record."""
        window = self._window
        first_new = window.end
        if end_offset <= first_new:
            return
        window.grow(end_offset - first_new, c.FRESH)
        for first, last in absent:
            low, high = max(first, first_new) - window.start, min(last, end_offset - 1) - window.start + 1
            if low < high:
                window.cells[low:high] = bytes((c.ABSENT,)) * (high - low)
        self._search_from = min(self._search_from, first_new)
        self._advance_start()

    def mark_absent(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The log has no record to deliver there (any more): compacted or aborted."""
        window = self._window
        for first, last in ranges:
            low, high = max(first, window.start) - window.start, min(last + 1, window.end) - window.start
            if low < high:
                window.cells[low:high] = window.cells[low:high].translate(c.FORGET_UNDELIVERED)
        self._advance_start()

    def forget_undelivered_tail(self) -> None:
        """Let go of the offsets after the last acquired one, to look at them again under other settings."""
        window = self._window
        keep = max(0, self._acquired_end - window.start)
        del window.cells[keep:], window.tickets[keep:], window.companies[keep:]
        self._search_from = min(self._search_from, window.end)

    def move_start(self, log_start_offset: int) -> None:
        """The log has lost its beginning (retention, DeleteRecords): what lay there is over, whoever held it."""
        window = self._window
        number = min(log_start_offset - window.start, len(window.cells))
        if log_start_offset <= window.start:
            return
        self._give_up_tickets(window.start, window.start + number - 1)
        window.drop(number)
        window.start = log_start_offset
        self._acquired_end = max(self._acquired_end, log_start_offset)
        self._advance_start()

    def delay_delivery(self, first: int, last: int, ready_ms: int) -> None:
        """Records that may not be acquired before a time of their own."""
        window = self._window
        low, high = first - window.start, last - window.start + 1
        if 0 <= low < high <= len(window.cells) and c.only(window.cells[low:high], c.AVAILABLE_CELLS):
            count = c.count_of(window.cells[low])
            window.cells[low:high] = bytes((c.cell(RecordState.DELAYED, count),)) * (high - low)
            self._delay(first, last, ready_ms)

    def wait_anew(self, backoff: RetryBackoff, since_ms: int) -> None:
        """Have every record that was delivered before wait its back-off, from the start of the broker on.

        The stored state says how often a record was delivered and not since when it waits, or whether it does. So a
        record waits too long after a restart rather than too short: the back-off is there to spare what has failed.
        """
        window = self._window
        for first, past, value in c.runs(bytes(window.cells)):
            count = c.count_of(value)
            if count and c.state_of(value) is RecordState.AVAILABLE:
                ready_ms = since_ms + backoff.after_delivery_ms(count)
                self.delay_delivery(window.start + first, window.start + past - 1, ready_ms)

    # Acquiring

    def available(self, settings: ShareSettings) -> int:
        """How many records could be acquired now."""
        window = self._window
        low, high = max(0, self._search_from - window.start), self._last_acquirable(settings)
        return c.number_in(window.cells[low:high], c.AVAILABLE_CELLS)

    def select(self, max_records: int, settings: ShareSettings) -> list[AcquiredRange]:
        """Available records for one fetch, as ranges with the delivery count that they would have. Nothing changes."""
        window = self._window
        stop = self._last_acquirable(settings)
        position = max(0, self._search_from - window.start)
        chosen: list[AcquiredRange] = []
        remaining = max_records
        while remaining > 0:
            first = c.find_available(window.cells, position, stop)
            if first < 0:
                if not chosen:
                    self._search_from = window.start + max(position, stop)
                break
            if not chosen:
                self._search_from = window.start + first
            count = c.count_of(window.cells[first])
            suspect = count >= settings.throttle_from_count
            if suspect:
                if chosen:
                    break
                run = c.run_length(window.cells, first, stop)
                number = min(run, remaining, self._suspects(first, run, count, settings))
            else:
                number = c.run_length(window.cells, first, min(stop, first + remaining))
            chosen.append(AcquiredRange(window.start + first, window.start + first + number - 1, count + 1))
            if suspect:
                break
            remaining -= number
            position = first + number
        return chosen

    def take(
        self, member_id: str, ranges: Sequence[AcquiredRange], now_ms: int, record_lock_duration_ms: int
    ) -> list[AcquiredRange]:
        """Acquire what was selected (or a beginning of it) for a member, under one lock."""
        if not ranges:
            return []
        window = self._window
        total = sum(chosen.last_offset - chosen.first_offset + 1 for chosen in ranges)
        lock = self._locks.grant(
            self._new_ticket(),
            member_id,
            now_ms,
            now_ms + record_lock_duration_ms,
            ranges[0].first_offset,
            ranges[-1].last_offset,
            total,
        )
        for first, last, _ in ranges:
            low, high = first - window.start, last - window.start + 1
            taken = window.cells[low:high]
            assert len(taken) == high - low, "records outside of the window were taken"
            assert c.only(taken, c.AVAILABLE_CELLS), "a record that is not available was taken"
            window.cells[low:high] = taken.translate(c.ACQUIRE)
            window.put_tickets(first, last, lock.ticket)
            window.put_companies(first, last, total)
        self._acquired_end = max(self._acquired_end, ranges[-1].last_offset + 1)
        return list(ranges)

    def _last_acquirable(self, settings: ShareSettings) -> int:
        """The index past the last one that may be acquired; a lowered limit still lets old records come back."""
        window = self._window
        allowed = max(self._acquired_end - window.start, settings.max_record_locks)
        return min(len(window.cells), allowed)

    def _suspects(self, index: int, run: int, count: int, settings: ShareSettings) -> int:
        limit = settings.delivery_count_limit
        if limit > 2 and count >= limit - 1:
            return 1
        company = self._window.companies[index]
        if company:
            return max(1, company >> 1)
        return max(1, run >> (count - settings.throttle_from_count + 1))

    # Acknowledging

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], settings: ShareSettings
    ) -> Transition:
        """Stage what a member says about records that it holds. All of it is right, or nothing changes.

        Batches come checked for form and in order (`acknowledgements.check_batches`). What lies below the start offset
        is over, and silently fine.
        """
        window = self._window
        changes: list[Change] = []
        renewals: list[tuple[int, int]] = []
        dead: list[DeadLetterRange] = []
        covered = -1
        for batch in batches:
            first, last = max(batch.first_offset, window.start), batch.last_offset
            if last < window.start:
                continue
            if self._acquired_end <= window.start:
                raise InvalidRecordState("The batch cannot be acknowledged: no record is in flight.")
            if last >= self._acquired_end:
                raise InvalidRequest("Batch record not found. The request batch exceeds the cached batches.")
            held = bytes(window.cells[first - window.start : last - window.start + 1])
            if first <= covered or not c.only(held, c.ACQUIRED_CELLS) or not self._holds(member_id, first, last):
                raise InvalidRecordState("The batch cannot be acknowledged: the member does not hold all its records.")
            covered = last
            for low, high, kind in _types_of(batch, first):
                if kind == AcknowledgeType.RENEW:
                    if not settings.renew_acknowledge_enabled:
                        raise InvalidRecordState("Renewing acquisition locks is disabled for this group.")
                    renewals.append((first + low, first + high - 1))
                else:
                    changes.append(_answer(first + low, held[low:high], kind, settings, dead))
        return self._stage(Transition(changes, self._write_for(changes), member_id, renewals, dead))

    def release_member(self, member_id: str, settings: ShareSettings) -> Transition | None:
        """Stage the return of everything that a member holds: its session has ended. The delivery counts (KAFKA-19972).

        A retry back-off does not apply: the member has gone, which says nothing about the records.
        """
        table = c.release_table(
            settings.delivery_count_limit, dead_letters=bool(settings.dead_letter_topic), delayed=False
        )
        changes: list[Change] = []
        for lock in self._locks.of_member(member_id):
            changes += self._changes_under(lock.ticket, lock.first, lock.last, table)
        if not changes:
            return None
        changes.sort()
        return self._stage(Transition(changes, self._write_for(changes), member_id, [], _exhausted_in(changes)))

    def finish_archiving(self, first: int, last: int) -> Transition | None:
        """Stage the end of records whose dead letters are written."""
        window = self._window
        first = max(first, window.start)
        if last < first:
            return None
        before = bytes(window.cells[first - window.start : last - window.start + 1])
        changes = [Change(first, before, before.translate(c.FINISH_ARCHIVING))]
        return self._stage(Transition(changes, self._write_for(changes)))

    def archive_unreadable(self, first: int, last: int, settings: ShareSettings) -> Transition | None:
        """Give up the records of a batch that nobody can open. Those that a member holds are left for it to answer.

        Already committed, as by `tick`: a record that cannot be delivered must not wait for its storage.
        """
        table = c.exhaust_table(0, dead_letters=bool(settings.dead_letter_topic))
        changes = self._changes_by(table, first, last)
        if not changes:
            return None
        dead = _archiving_in(changes, DeadLetterCause.UNREADABLE)
        transition = Transition(changes, self._write_for(changes), dead_letters=dead)
        for change in changes:
            self._apply(change, 0, settings)
        self._advance_start()
        return transition

    def archiving(self) -> list[DeadLetterRange]:
        """Records that wait for their dead letters, for the shell that takes over after a crash."""
        window = self._window
        return [
            DeadLetterRange(window.start + first, window.start + past - 1, c.count_of(value), DeadLetterCause.EXHAUSTED)
            for first, past, value in c.runs(bytes(window.cells))
            if c.state_of(value) is RecordState.ARCHIVING
        ]

    def commit(self, transition: Transition, now_ms: int, settings: ShareSettings) -> None:
        for change in transition.changes:
            self._apply(change, now_ms, settings)
        for first, last in transition.renewals:
            self._renew(transition.member_id, first, last, now_ms + settings.record_lock_duration_ms)
        self._advance_start()

    def rollback(self, transition: Transition, settings: ShareSettings) -> None:
        """The write failed: its records are held as before, unless their lock has run out meanwhile."""
        window = self._window
        for change in transition.changes:
            first, before = change.first_offset, change.before
            if change.last_offset < window.start:
                continue
            if first < window.start:
                first, before = window.start, before[window.start - first :]
            window.cells[first - window.start : first - window.start + len(before)] = before
            for ticket in set(window.tickets[first - window.start : first - window.start + len(before)]):
                lock = self._locks.get(ticket)
                if lock is not None and lock.expired:
                    table = c.release_table(settings.delivery_count_limit, dead_letters=False, delayed=False)
                    for expired in self._changes_under(ticket, lock.first, lock.last, table):
                        self._apply(expired, 0, settings)
        self._advance_start()

    def whole_state(self) -> StateWrite:
        """A write of all that has happened: what a member holds is stored as before it was acquired."""
        window = self._window
        stored = bytes(window.cells).translate(c.STORED)
        batches = [
            StateBatch(window.start + first, window.start + past - 1, c.state_of(value), c.count_of(value))
            for first, past, value in c.runs(stored)
            if value not in (c.FRESH, c.ABSENT)
        ]
        return StateWrite(window.start, self.delivery_complete_count, batches)

    # Time

    def tick(self, now_ms: int, settings: ShareSettings) -> Transition | None:
        """End the delays and locks whose time is up; a lowered delivery limit is applied here too. Already committed:
        the result says what to write, and which records died of it."""
        self._end_delays(now_ms)
        changes = self._over_the_limit(settings)
        table = c.release_table(
            settings.delivery_count_limit,
            dead_letters=bool(settings.dead_letter_topic),
            delayed=settings.retry_backoff is not None,
        )
        for lock in self._locks.due(now_ms):
            changes += self._changes_under(lock.ticket, lock.first, lock.last, table)
        if not changes:
            return None
        changes.sort()
        transition = Transition(changes, self._write_for(changes), dead_letters=_exhausted_in(changes))
        for change in changes:
            self._apply(change, now_ms, settings)
        self._advance_start()
        return transition

    def next_deadline_ms(self) -> int | None:
        deadlines = [self._locks.next_deadline_ms(), self._delays[0][0] if self._delays else None]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _end_delays(self, now_ms: int) -> None:
        window = self._window
        while self._delays and self._delays[0][0] <= now_ms:
            _, ticket, first, last = heapq.heappop(self._delays)
            for low, high in window.runs_under(ticket, first, last, _DELAYED_CELLS):
                ready = window.cells[low - window.start : high - window.start + 1]
                window.cells[low - window.start : high - window.start + 1] = ready.translate(c.BECOME_AVAILABLE)
                window.put_tickets(low, high, NO_TICKET)
                self._search_from = min(self._search_from, low)

    def _over_the_limit(self, settings: ShareSettings) -> list[Change]:
        unchanged = 0 < self._delivery_count_limit <= settings.delivery_count_limit
        self._delivery_count_limit = settings.delivery_count_limit
        if unchanged:
            return []
        table = c.exhaust_table(settings.delivery_count_limit, dead_letters=bool(settings.dead_letter_topic))
        return self._changes_by(table, self._window.start, self._window.end - 1)

    # The parts

    def _new_ticket(self) -> int:
        self._last_ticket += 1
        return self._last_ticket

    def _holds(self, member_id: str, first: int, last: int) -> bool:
        window = self._window
        for ticket in set(window.tickets[first - window.start : last - window.start + 1]):
            lock = self._locks.get(ticket)
            if lock is None or lock.member_id != member_id:
                return False
        return True

    def _changes_by(self, table: bytes, first: int, last: int) -> list[Change]:
        """What a table changes between two offsets, as far as they are in the window."""
        window = self._window
        first = max(first, window.start)
        before = bytes(window.cells[first - window.start : max(0, last - window.start + 1)])
        after = before.translate(table)
        if after == before:
            return []
        return [
            Change(first + low, before[low:past], after[low:past])
            for low, past, value in c.runs(before)
            if after[low] != value
        ]

    def _changes_under(self, ticket: int, first: int, last: int, table: bytes) -> list[Change]:
        window = self._window
        changes = []
        for low, high in window.runs_under(ticket, first, last, c.ACQUIRED_CELLS):
            before = bytes(window.cells[low - window.start : high - window.start + 1])
            changes.append(Change(low, before, before.translate(table)))
        return changes

    def _stage(self, transition: Transition) -> Transition:
        window = self._window
        for first, before, _ in transition.changes:
            low = first - window.start
            window.cells[low : low + len(before)] = before.translate(c.STAGE)
        return transition

    def _write_for(self, changes: Sequence[Change]) -> StateWrite:
        """What the coordinator must remember once these changes hold.

        The start offset that the changes lead to goes with them, where Kafka sends the one from before: the stored
        state stays smaller, and does not trail behind memory.
        """
        window = self._window
        after = bytearray(window.cells)
        for first, _, outcome in changes:
            low = first - window.start
            after[low : low + len(outcome)] = outcome
        advance = c.terminal_prefix(after)
        start = window.start + advance
        batches: list[StateBatch] = []
        for change in changes:
            for first, past, value in c.runs(change.after.translate(c.PERSISTED)):
                last_offset = change.first_offset + past - 1
                if last_offset >= start:
                    _append_merged(
                        batches,
                        StateBatch(
                            max(change.first_offset + first, start),
                            last_offset,
                            c.state_of(value),
                            c.count_of(value),
                        ),
                    )
        return StateWrite(start, c.number_in(after[advance:], c.TERMINAL_CELLS), batches)

    def _apply(self, change: Change, now_ms: int, settings: ShareSettings) -> None:
        window = self._window
        first, after = change.first_offset, change.after
        if change.last_offset < window.start:
            return
        if first < window.start:
            first, after = window.start, after[window.start - first :]
        last = first + len(after) - 1
        self._give_up_tickets(first, last)
        window.cells[first - window.start : last - window.start + 1] = after
        window.put_tickets(first, last, NO_TICKET)
        if settings.retry_backoff is not None:
            for low, past, value in c.runs(after):
                if c.state_of(value) is RecordState.DELAYED:
                    wait_ms = settings.retry_backoff.after_delivery_ms(c.count_of(value))
                    self._delay(first + low, first + past - 1, now_ms + wait_ms)
        self._search_from = min(self._search_from, first)

    def _give_up_tickets(self, first: int, last: int) -> None:
        window = self._window
        under = window.tickets[first - window.start : last - window.start + 1]
        for ticket in set(under):
            if ticket != NO_TICKET and self._locks.get(ticket) is not None:
                self._locks.give_up(ticket, under.count(ticket))

    def _renew(self, member_id: str, first: int, last: int, deadline_ms: int) -> None:
        window = self._window
        first = max(first, window.start)
        if last < first:
            return
        ranges = [
            (low, high, lock.since_ms)
            for ticket in set(window.tickets[first - window.start : last - window.start + 1])
            if (lock := self._locks.get(ticket)) is not None and lock.member_id == member_id
            for low, high in window.runs_under(ticket, first, last, c.ACQUIRED_CELLS)
        ]
        held = sum(high - low + 1 for low, high, _ in ranges)
        if held == 0:
            return
        since_ms = min(since_ms for _, _, since_ms in ranges)
        renewed = self._locks.grant(self._new_ticket(), member_id, since_ms, deadline_ms, first, last, held)
        for low, high, _ in ranges:
            self._give_up_tickets(low, high)
            window.put_tickets(low, high, renewed.ticket)

    def _delay(self, first: int, last: int, ready_ms: int) -> None:
        ticket = self._new_ticket()
        self._window.put_tickets(first, last, ticket)
        heapq.heappush(self._delays, (ready_ms, ticket, first, last))

    def _advance_start(self) -> None:
        done = c.terminal_prefix(self._window.cells)
        if done:
            self._window.drop(done)
            self._acquired_end = max(self._acquired_end, self._window.start)

    # For people who look

    def view(self, now_ms: int) -> Iterator[RecordsView]:
        """The window up to the last acquired offset, in runs of records that are alike."""
        cells, tickets = self._seen()
        delays = {ticket: ready_ms for ready_ms, ticket, _, _ in self._delays}
        offset = self._window.start
        for (value, ticket), run in groupby(zip(cells, tickets, strict=True)):
            number = sum(1 for _ in run)
            lock = self._locks.get(ticket)
            deadline_ms = lock.deadline_ms if lock is not None else delays.get(ticket, now_ms)
            holder = lock.member_id if lock is not None else ""
            state = c.STATE_NAMES[value & c.STATE_MASK]
            yield RecordsView(offset, number, state, c.count_of(value), holder, max(0, deadline_ms - now_ms))
            offset += number

    def counts(self) -> list[tuple[str, int, int, int | None]]:
        """How many records of the view are in which state after how many deliveries, and when the next one backs off no
        more: state, deliveries, records, ready."""
        cells, tickets = self._seen()
        ready: dict[int, int] = {}
        if self._delays:
            delays = {ticket: ready_ms for ready_ms, ticket, _, _ in self._delays}
            for value, ticket in set(zip(cells, tickets, strict=True)):
                if value in _DELAYED_CELLS and ticket in delays:
                    ready[value] = min(delays[ticket], ready.get(value, delays[ticket]))
        return [
            (c.STATE_NAMES[value & c.STATE_MASK], c.count_of(value), number, ready.get(value))
            for value, number in Counter(cells).items()
        ]

    def _seen(self) -> tuple[bytearray, array[int]]:
        number = min(len(self._window.cells), self.in_flight)
        return self._window.cells[:number], self._window.tickets[:number]


def _types_of(batch: AcknowledgementBatch, first: int) -> Iterable[tuple[int, int, int]]:
    """Runs of equal types from an offset of the batch on, as indexes from that offset."""
    if len(batch.types) == 1:
        return ((0, batch.last_offset - first + 1, batch.types[0]),)
    return c.runs(batch.types[first - batch.first_offset :])


def _answer(first: int, held: bytes, kind: int, settings: ShareSettings, dead: list[DeadLetterRange]) -> Change:
    has_dead_letters = bool(settings.dead_letter_topic)
    if kind == AcknowledgeType.ACCEPT:
        return Change(first, held, held.translate(c.ACCEPT))
    if kind == AcknowledgeType.RELEASE:
        table = c.release_table(
            settings.delivery_count_limit,
            dead_letters=has_dead_letters,
            delayed=settings.retry_backoff is not None,
        )
        change = Change(first, held, held.translate(table))
        dead += _exhausted_in([change])
        return change
    if kind == AcknowledgeType.REJECT and has_dead_letters:
        dead += [
            DeadLetterRange(first + low, first + past - 1, c.count_of(value), DeadLetterCause.REJECTED)
            for low, past, value in c.runs(held)
        ]
        return Change(first, held, held.translate(c.BEGIN_ARCHIVING))
    return Change(first, held, held.translate(c.ARCHIVE))


def _exhausted_in(changes: Iterable[Change]) -> list[DeadLetterRange]:
    return _archiving_in(changes, DeadLetterCause.EXHAUSTED)


def _archiving_in(changes: Iterable[Change], cause: DeadLetterCause) -> list[DeadLetterRange]:
    return [
        DeadLetterRange(change.first_offset + first, change.first_offset + past - 1, c.count_of(value), cause)
        for change in changes
        for first, past, value in c.runs(change.after)
        if c.state_of(value) is RecordState.ARCHIVING
    ]


def _append_merged(batches: list[StateBatch], batch: StateBatch) -> None:
    if batches:
        previous = batches[-1]
        if previous.last_offset + 1 == batch.first_offset and previous[2:] == batch[2:]:
            batches[-1] = StateBatch(previous.first_offset, batch.last_offset, *batch[2:])
            return
    batches.append(batch)
