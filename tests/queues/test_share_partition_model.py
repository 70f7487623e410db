"""A share-partition against a model so plain that one can see it is right: a dictionary with one entry per record.

Whatever members do, in whatever order, with writes that fail and a coordinator that forgets nothing it was told: every
record ends acknowledged or archived exactly once, no record is under two unexpired locks, no delivery count passes the
limit, the start offset never moves back, and the window rebuilt from the written state delivers what was not done and
nothing that was.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.queues.cells import RecordState
from penstock.queues.merging import merge_batches
from penstock.queues.settings import ShareSettings
from penstock.queues.share_partition import SharePartition
from penstock.queues.transitions import AcknowledgementBatch, AcknowledgeType, StateBatch, Transition
from penstock.wire.errors import KafkaError

SETTINGS = ShareSettings(delivery_count_limit=4, max_record_locks=40, record_lock_duration_ms=100)
MEMBERS = ("a", "b", "c")
FINAL = ("ACKNOWLEDGED", "ARCHIVED")


@dataclass
class ModelRecord:
    state: str = "AVAILABLE"
    count: int = 0
    holder: str = ""
    deadline_ms: int = 0


class ShareStateModel:
    """What the share coordinator would remember."""

    def __init__(self) -> None:
        self.start = 0
        self.batches: list[StateBatch] = []

    def store(self, transition: Transition) -> None:
        self.start = max(self.start, transition.write.start_offset)
        self.batches = merge_batches(self.start, self.batches, transition.write.batches)


class SharePartitionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0)
        self.records: dict[int, ModelRecord] = {}
        self.absent: set[int] = set()
        self.stored = ShareStateModel()
        self.log_end = 0
        self.log_start = 0
        self.now_ms = 0
        self.last_start = 0
        self.ended: dict[int, str] = {}

    def end(self, offset: int, how: str) -> None:
        assert offset not in self.ended, f"offset {offset} ended twice"
        self.ended[offset] = how
        self.records[offset] = ModelRecord(how, self.records[offset].count)

    def give_back(self, offset: int) -> None:
        record = self.records[offset]
        if record.count >= SETTINGS.delivery_count_limit:
            self.end(offset, "ARCHIVED")
        else:
            self.records[offset] = ModelRecord("AVAILABLE", record.count)

    def known(self) -> list[int]:
        return [offset for offset in sorted(self.records) if offset >= self.partition.start_offset]

    @rule(number=st.integers(1, 30), holes=st.sets(st.integers(0, 29), max_size=4))
    def produce(self, number: int, holes: set[int]) -> None:
        self.absent |= {self.log_end + hole for hole in holes if hole < number}
        self.log_end += number

    @rule(member=st.sampled_from(MEMBERS), wanted=st.integers(1, 25), part=st.floats(0.2, 1))
    def fetch(self, member: str, wanted: int, part: float) -> None:
        partition = self.partition
        before = partition.end_offset
        end = min(self.log_end, before + partition.room(SETTINGS))
        partition.extend(end, [(offset, offset) for offset in sorted(self.absent) if before <= offset < end])
        for offset in range(before, end):
            self.records[offset] = ModelRecord()
            if offset in self.absent:
                self.end(offset, "ARCHIVED")
        chosen = partition.select(wanted, SETTINGS)
        assert sum(last - first + 1 for first, last, _ in chosen) <= wanted
        kept = chosen[: max(1, int(len(chosen) * part))]
        taken = partition.take(member, kept, self.now_ms, SETTINGS.record_lock_duration_ms)
        for first, last, count in taken:
            for offset in range(first, last + 1):
                record = self.records[offset]
                assert record.state == "AVAILABLE", f"offset {offset} was delivered while {record.state}"
                assert offset not in self.ended
                record.state, record.count, record.holder = "ACQUIRED", record.count + 1, member
                record.deadline_ms = self.now_ms + SETTINGS.record_lock_duration_ms
                assert record.count == count <= SETTINGS.delivery_count_limit
        available = [offset for offset in self.known() if self.records[offset].state == "AVAILABLE"]
        if not chosen:
            assert not available, "records were available, but none was selected"
        elif not taken[0].delivery_count > 2:
            assert taken[0].first_offset < min(available, default=self.log_end), "a later record came first"

    def held_runs(self) -> list[tuple[str, int, int]]:
        """Ranges that one member holds."""
        runs: list[tuple[str, int, int]] = []
        for offset in self.known():
            record = self.records[offset]
            if record.state != "ACQUIRED":
                continue
            if runs and runs[-1][0] == record.holder and runs[-1][2] == offset - 1:
                runs[-1] = (record.holder, runs[-1][1], offset)
            else:
                runs.append((record.holder, offset, offset))
        return runs

    @precondition(lambda self: self.held_runs())
    @rule(data=st.data(), write_fails=st.sampled_from([False, False, False, True]))
    def a_holder_answers(self, data: st.DataObject, write_fails: bool) -> None:
        member, low, high = data.draw(st.sampled_from(self.held_runs()))
        first = data.draw(st.integers(low, high))
        self.acknowledge(data, member, first, data.draw(st.integers(first, high)), write_fails)

    @precondition(lambda self: self.held_runs())
    @rule(kind=st.sampled_from([AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT]))
    def everything_is_answered(self, kind: AcknowledgeType) -> None:
        for member, first, last in self.held_runs():
            self.settle(member, first, last, [kind], write_fails=False)

    @precondition(lambda self: self.known())
    @rule(member=st.sampled_from(MEMBERS), data=st.data())
    def anybody_answers(self, member: str, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(self.known()))
        last = data.draw(st.integers(first, min(first + 12, self.log_end)))
        self.acknowledge(data, member, first, last, write_fails=False)

    def acknowledge(self, data: st.DataObject, member: str, first: int, last: int, write_fails: bool) -> None:
        span = last - first + 1
        kinds = st.sampled_from(list(AcknowledgeType))
        types = data.draw(st.one_of(kinds.map(lambda kind: [kind]), st.lists(kinds, min_size=span, max_size=span)))
        self.settle(member, first, last, types, write_fails)

    def settle(self, member: str, first: int, last: int, types: list[AcknowledgeType], write_fails: bool) -> None:
        held = all(
            offset in self.records
            and self.records[offset].state == "ACQUIRED"
            and self.records[offset].holder == member
            for offset in range(first, last + 1)
        )
        try:
            transition = self.partition.acknowledge(member, [AcknowledgementBatch(first, last, bytes(types))], SETTINGS)
        except KafkaError:
            assert not held, "a holder was refused"
            return
        assert held, "someone answered for records that it does not hold"
        if write_fails:
            self.partition.rollback(transition, SETTINGS)
            return
        self.stored.store(transition)
        self.partition.commit(transition, self.now_ms, SETTINGS)
        for offset in range(first, last + 1):
            self.answer(offset, types[0] if len(types) == 1 else types[offset - first])

    def answer(self, offset: int, kind: AcknowledgeType) -> None:
        if kind is AcknowledgeType.ACCEPT:
            self.end(offset, "ACKNOWLEDGED")
        elif kind is AcknowledgeType.RELEASE:
            self.give_back(offset)
        elif kind is AcknowledgeType.RENEW:
            self.records[offset].deadline_ms = self.now_ms + SETTINGS.record_lock_duration_ms
        else:
            self.end(offset, "ARCHIVED")

    @rule(passing_ms=st.integers(0, 150))
    def time_passes(self, passing_ms: int) -> None:
        self.now_ms += passing_ms
        transition = self.partition.tick(self.now_ms, SETTINGS)
        if transition is not None:
            self.stored.store(transition)
        for offset in self.known() + [offset for offset in self.records if offset < self.partition.start_offset]:
            record = self.records[offset]
            if record.state == "ACQUIRED" and record.deadline_ms <= self.now_ms:
                self.give_back(offset)

    @rule(member=st.sampled_from(MEMBERS))
    def session_ends(self, member: str) -> None:
        transition = self.partition.release_member(member, SETTINGS)
        if transition is not None:
            self.stored.store(transition)
            self.partition.commit(transition, self.now_ms, SETTINGS)
        for offset, record in list(self.records.items()):
            if record.state == "ACQUIRED" and record.holder == member:
                self.give_back(offset)

    @precondition(lambda self: self.log_end > self.log_start)
    @rule(data=st.data())
    def log_start_moves(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, min(self.log_start + 10, self.log_end)))
        self.partition.move_start(self.log_start)
        for offset in range(self.log_start):
            if offset not in self.records:
                self.records[offset] = ModelRecord()
            if self.records[offset].state not in FINAL:
                self.end(offset, "ARCHIVED")

    @rule()
    def broker_crashes(self) -> None:
        """Locks are forgotten, deliveries that nobody answered for are too; nothing that was answered comes back."""
        self.partition = SharePartition.restore(self.stored.start, self.stored.batches)
        self.partition.move_start(self.log_start)
        self.partition.mark_absent((offset, offset) for offset in self.absent)
        stored = {
            offset: batch
            for batch in self.stored.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        for offset, record in list(self.records.items()):
            if offset >= self.partition.end_offset and offset not in self.ended:
                del self.records[offset]
            elif offset >= self.partition.end_offset and offset in self.absent:
                del self.records[offset], self.ended[offset]
            elif offset not in self.ended:
                batch = stored.get(offset)
                self.records[offset] = ModelRecord("AVAILABLE", batch.delivery_count if batch else 0)
                assert batch is None or batch.delivery_state == RecordState.AVAILABLE
            else:
                assert record.state in FINAL
        self.last_start = min(self.last_start, self.partition.start_offset)

    @invariant()
    def the_start_offset_never_moves_back(self) -> None:
        assert self.partition.start_offset >= self.last_start
        self.last_start = self.partition.start_offset

    @invariant()
    def the_window_is_what_the_model_says(self) -> None:
        rows = [
            (offset, run)
            for run in self.partition.view(self.now_ms)
            for offset in range(run.offset, run.offset + run.number)
        ]
        for offset, row in rows:
            record = self.records[offset]
            assert row.state == record.state or {row.state, record.state} <= set(FINAL)
            if record.state not in FINAL:
                assert row.delivery_count == record.count
            if row.state == "ACQUIRED":
                assert (row.member_id, row.remaining_ms) == (record.holder, record.deadline_ms - self.now_ms)
        for offset in range(self.log_start, self.partition.start_offset):
            assert offset in self.ended, f"offset {offset} was passed before it was done"

    @invariant()
    def the_window_is_bounded(self) -> None:
        assert self.partition.end_offset - self.partition.start_offset <= SETTINGS.max_record_locks
        assert sum(self.partition.held_by_member().values()) <= SETTINGS.max_record_locks


SharePartitionMachine.TestCase.settings = hypothesis_settings(max_examples=250, stateful_step_count=40, deadline=None)
TestSharePartitionModel = SharePartitionMachine.TestCase
