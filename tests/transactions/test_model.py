"""The coordinator under random commands, with a crash between any two writes.

The world of this test: the coordinator's log, a few data partitions, and producers that share two transactional ids
(so some of them are zombies at any moment). Each write is a separate step, and at each step the coordinator may die:
before the records of a command are appended, after them, between two markers, between the last marker and the Complete
record. Then a new coordinator replays the log.

What must hold, always:

- an outcome that was prepared never turns into the other one;
- a transaction is complete only when each of its partitions has the marker of its outcome, after its last record, and
  none of the other outcome;
- epochs only rise, and a new producer id starts at epoch 0;
- whoever lost its epoch to another producer changes nothing any more;
- in the end, with time and without crashes, every transaction completes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.groups.effects import Effects, RequestContext
from penstock.transactions.metadata import TopicPartition, TransactionMetadata, TransactionVersion
from penstock.transactions.records import metadata_of, transactional_id_of
from penstock.transactions.shard import AddPartitions, TransactionSettings, TransactionShard, WriteMarkers
from penstock.transactions.states import ENDING, NEXT_STATES, TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

PARTITIONS: list[TopicPartition] = [("a", 0), ("a", 1), ("b", 0)]
IDS = ["classic", "modern"]
TIMEOUT_MS = 1_000


@dataclass
class Partition:
    """One data partition, with the rule of the log: an epoch below the newest one seen is refused."""

    epochs: dict[int, int] = field(default_factory=dict)
    # producer id -> number of records since its last marker
    open_records: dict[int, int] = field(default_factory=dict)
    # (producer id, epoch of the marker) -> outcomes written
    markers: dict[tuple[int, int], set[bool]] = field(default_factory=dict)

    def append(self, producer_id: int, epoch: int) -> bool:
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self.epochs[producer_id] = epoch
        self.open_records[producer_id] = self.open_records.get(producer_id, 0) + 1
        return True

    def mark(self, markers: WriteMarkers) -> None:
        assert markers.producer_epoch >= self.epochs.get(markers.producer_id, -1)
        self.epochs[markers.producer_id] = markers.producer_epoch
        self.open_records[markers.producer_id] = 0
        self.markers.setdefault((markers.producer_id, markers.producer_epoch), set()).add(markers.commit)


@dataclass
class Producer:
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1

    @property
    def version(self) -> TransactionVersion:
        return TransactionVersion.TV_2 if self.transactional_id == "modern" else TransactionVersion.TV_0

    @property
    def end_version(self) -> int:
        return 5 if self.transactional_id == "modern" else 4


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 10_000
        self.producer_ids = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.entries: dict[str, TransactionMetadata] = {}
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.producers = [Producer(transactional_id) for transactional_id in IDS for _ in range(2)]
        self.asked: list[tuple[WriteMarkers, set[TopicPartition]]] = []
        self.unreported: list[tuple[WriteMarkers, TopicPartition]] = []
        self.replies: dict[object, object] = {}
        self.waiting: dict[object, tuple[int, int, TopicPartition]] = {}
        self.tokens = 0
        self.shard = self.new_shard()

    def new_shard(self) -> TransactionShard:
        configured = TransactionSettings(concurrent_wait_ms=50, transactional_id_expiration_ms=10**9)
        return TransactionShard(coordinator_epoch=0, settings=configured, new_producer_id=self.new_producer_id)

    def new_producer_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    # --- the shell ---

    def run(self, effects: Effects) -> None:
        for key, value in effects.records:
            self.check_step(key, value)
            self.log.append((key, value))
            self.shard.replay(key, value)
        for action in effects.actions:
            assert isinstance(action, WriteMarkers)
            self.asked.append((action, set(action.partitions)))
        for token, response in effects.replies:
            self.replies[token] = response
            if token in self.waiting and response == ErrorCode.NONE:
                producer_id, epoch, partition = self.waiting[token]
                self.partitions[partition].append(producer_id, epoch)

    def crash(self) -> None:
        self.asked.clear()
        self.unreported.clear()
        self.waiting.clear()
        self.shard = self.new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.run(self.shard.loaded(self.now_ms))

    def attempt(self, effects: Effects, dies: bool) -> bool:
        """Run the effects, unless the broker dies before it could append them."""
        if dies:
            self.crash()
        else:
            self.run(effects)
        return not dies

    # --- checks ---

    def check_step(self, key: bytes, value: bytes | None) -> None:
        transactional_id = transactional_id_of(key)
        assert transactional_id is not None
        assert value is not None
        after = metadata_of(transactional_id, value)
        assert after is not None
        before = self.entries.get(transactional_id)
        self.entries[transactional_id] = after
        if before is None:
            assert (after.state, after.producer_epoch) == (TransactionState.EMPTY, 0)
            return
        assert after.state in NEXT_STATES[before.state]
        if after.producer_id == before.producer_id:
            assert after.producer_epoch >= before.producer_epoch
        else:
            assert (after.producer_id > before.producer_id, after.producer_epoch) == (True, 0)
        if after.state in ENDING and after.client_version.bumps_epoch:
            assert after.producer_epoch == before.producer_epoch + 1
        if before.state in ENDING:
            self.check_complete(before)

    def check_complete(self, ended: TransactionMetadata) -> None:
        outcome = ended.state == TransactionState.PREPARE_COMMIT
        for partition in ended.partitions:
            held = self.partitions[partition]
            assert held.markers.get((ended.producer_id, ended.producer_epoch), set()) >= {outcome}
            assert held.open_records.get(ended.producer_id, 0) == 0
            if ended.client_version.bumps_epoch:
                # One epoch per transaction: never both outcomes. (A classic epoch lives through many transactions.)
                assert held.markers[(ended.producer_id, ended.producer_epoch)] == {outcome}

    @invariant()
    def no_record_is_outside_the_coordinators_sight(self) -> None:
        """Every partition with open records of a producer belongs to a transaction that the coordinator will end."""
        for partition, held in self.partitions.items():
            for producer_id, count in held.open_records.items():
                assert count == 0 or self.shard.holds(producer_id, partition)

    # --- what may happen ---

    producer = st.integers(0, 3)
    dies = st.sampled_from([False] * 9 + [True])

    @rule(index=producer, goes_on=st.booleans(), dies=dies)
    def init(self, index: int, goes_on: bool, dies: bool) -> None:
        producer = self.producers[index]
        self.tokens += 1
        token = self.tokens
        request = m.InitProducerIdRequest(
            transactional_id=producer.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=producer.producer_id if goes_on else -1,
            producer_epoch=producer.epoch if goes_on else -1,
        )
        if not self.attempt(self.shard.init_producer_id(token, RequestContext(self.now_ms, 5), request), dies):
            return
        response = self.replies[token]
        assert isinstance(response, m.InitProducerIdResponse)
        if response.error_code == ErrorCode.NONE:
            producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch

    @rule(index=producer, partition=st.sampled_from(PARTITIONS), dies=dies)
    def write(self, index: int, partition: TopicPartition, dies: bool) -> None:
        producer = self.producers[index]
        zombie = self.is_zombie(producer)
        self.tokens += 1
        token = self.tokens
        add = AddPartitions(
            producer.transactional_id, producer.producer_id, producer.epoch, frozenset({partition}), producer.version
        )
        effects = self.shard.add_partitions(token, self.now_ms, add)
        assert not (zombie and effects.records)
        if not effects.replies:
            self.waiting[token] = (producer.producer_id, producer.epoch, partition)
        if self.attempt(effects, dies) and self.replies.get(token) == ErrorCode.NONE:
            assert self.shard.verify(add)[partition] == ErrorCode.NONE
            self.partitions[partition].append(producer.producer_id, producer.epoch)

    @rule(index=producer, commit=st.booleans(), dies=dies)
    def end(self, index: int, commit: bool, dies: bool) -> None:
        producer = self.producers[index]
        zombie = self.is_zombie(producer)
        self.tokens += 1
        token = self.tokens
        request = m.EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        effects = self.shard.end_txn(token, RequestContext(self.now_ms, producer.end_version), request)
        assert not (zombie and effects.records)
        if not self.attempt(effects, dies):
            return
        response = self.replies[token]
        assert isinstance(response, m.EndTxnResponse)
        if response.error_code == ErrorCode.NONE and producer.version.bumps_epoch and not zombie:
            producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch

    def is_zombie(self, producer: Producer) -> bool:
        entry = self.entries.get(producer.transactional_id)
        if entry is None:
            return False
        return (producer.producer_id, producer.epoch) < (entry.producer_id, entry.producer_epoch)

    @precondition(lambda self: any(left for _, left in self.asked))
    @rule(which=st.integers(0, 10))
    def write_a_marker(self, which: int) -> None:
        unwritten = [(markers, left) for markers, left in self.asked if left]
        markers, left = unwritten[which % len(unwritten)]
        partition = min(left)
        self.partitions[partition].mark(markers)
        left.discard(partition)
        self.unreported.append((markers, partition))

    @precondition(lambda self: self.unreported)
    @rule()
    def report_a_marker(self) -> None:
        """The marker is durable; only now does the coordinator hear of it."""
        markers, partition = self.unreported.pop(0)
        self.run(self.shard.markers_written(markers, [partition], self.now_ms))

    @rule(passed_ms=st.integers(1, 400))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.run(self.shard.tick(self.now_ms))

    @rule()
    def the_broker_dies(self) -> None:
        self.crash()

    def teardown(self) -> None:
        """Left alone, everything comes to its end."""
        self.crash()
        for _ in range(2):
            self.now_ms += TIMEOUT_MS + 1
            self.run(self.shard.tick(self.now_ms))
            for markers, left in list(self.asked):
                for partition in sorted(left):
                    self.partitions[partition].mark(markers)
                self.run(self.shard.markers_written(markers, markers.partitions, self.now_ms))
            self.asked.clear()
        for entry in self.entries.values():
            assert entry.state not in (ENDING | {TransactionState.ONGOING})
        for held in self.partitions.values():
            assert not any(held.open_records.values())


World.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTheCoordinatorInARandomWorld = World.TestCase
