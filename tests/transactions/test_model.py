"""The coordinator under random commands, with a crash between any two writes.

The world of this test: the coordinator's log, a few data partitions, and producers that share two transactional ids
(so some of them are zombies at any moment). Each write is a separate step, and at each step the broker may die: before
the records of a command are appended, after them and before the answer, between two markers, between the last marker
and the Complete record. Then a new coordinator replays the log. Or the machine goes down, and each log keeps what was
synced and any part of what came after it.

What must hold, always:

- an outcome that was prepared never turns into the other one;
- a transaction is complete only when each of its partitions has the marker of its outcome, after its last record, and
  none of the other outcome;
- epochs only rise, and a new producer id starts at epoch 0;
- whoever lost its epoch to another producer changes nothing any more;
- in the end, with time and without crashes, every transaction completes, and then:
- all that was acknowledged in a transaction whose commit was acknowledged is there;
- of a transaction whose end got no answer all is there or nothing, and nothing of any other one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects
from penstock.transactions.metadata import TopicPartition, TransactionMetadata, TransactionVersion
from penstock.transactions.records import metadata_of, transactional_id_of
from penstock.transactions.shard import AddPartitions, TransactionSettings, TransactionShard, WriteMarkers
from penstock.transactions.states import ENDING, NEXT_STATES, TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

PARTITIONS: list[TopicPartition] = [("a", 0), ("a", 1), ("b", 0)]
IDS = ["classic", "modern"]
TIMEOUT_MS = 1_000

Data = tuple[int, int, int]  # producer id, epoch, value
Marker = tuple[int, int, bool]  # producer id, epoch, outcome


@dataclass
class Partition:
    """One data partition, with the rule of the log: an epoch below the newest one seen is refused."""

    events: list[Data | Marker] = field(default_factory=list)
    synced: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    # producer id -> number of records since its last marker
    open_records: dict[int, int] = field(default_factory=dict)
    # (producer id, epoch of the marker) -> outcomes written
    markers: dict[tuple[int, int], set[bool]] = field(default_factory=dict)

    def append(self, producer_id: int, epoch: int, value: int) -> bool:
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self._note((producer_id, epoch, value))
        return True

    def mark(self, producer_id: int, epoch: int, commit: bool, version: TransactionVersion) -> bool:
        """With KIP-890 a marker of the epoch that has records open is a repeated one of the transaction before."""
        current = self.epochs.get(producer_id, -1)
        if epoch < current or (version.bumps_epoch and epoch == current and self.open_records.get(producer_id)):
            return False
        self._note((producer_id, epoch, commit))
        return True

    def _note(self, event: Data | Marker) -> None:
        self.events.append(event)
        producer_id, epoch, what = event
        self.epochs[producer_id] = epoch
        if isinstance(what, bool):
            self.open_records[producer_id] = 0
            self.markers.setdefault((producer_id, epoch), set()).add(what)
        else:
            self.open_records[producer_id] = self.open_records.get(producer_id, 0) + 1

    def sync(self) -> None:
        self.synced = len(self.events)

    def lose_power(self, chance: random.Random) -> Partition:
        after = Partition()
        for event in self.events[: chance.randint(self.synced, len(self.events))]:
            after._note(event)
        after.sync()
        return after

    def visible(self) -> set[int]:
        """The values that a `read_committed` reader sees."""
        seen: set[int] = set()
        held: dict[int, list[int]] = {}
        for producer_id, _, what in self.events:
            if not isinstance(what, bool):
                held.setdefault(producer_id, []).append(what)
            elif what:
                seen.update(held.pop(producer_id, ()))
            else:
                held.pop(producer_id, None)
        return seen


@dataclass
class Transaction:
    """What a producer knows of one of its transactions."""

    written: list[tuple[TopicPartition, int]] = field(default_factory=list)
    requested: bool | None = None
    """The outcome that it asked for."""
    answered: bool = False


@dataclass
class Producer:
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1
    transaction: Transaction = field(default_factory=Transaction)

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
        self.synced = 0
        self.entries: dict[str, TransactionMetadata] = {}
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.producers = [Producer(transactional_id) for transactional_id in IDS for _ in range(2)]
        self.ended: list[Transaction] = []
        self.requested: list[tuple[WriteMarkers, set[TopicPartition]]] = []
        self.unreported: list[tuple[WriteMarkers, TopicPartition]] = []
        self.replies: dict[int, object] = {}
        self.waiting: dict[int, tuple[Producer, int, int, TopicPartition]] = {}
        self.tokens = 0
        self.has_lost_power = False
        self.shard = self.new_shard()

    def new_shard(self, *, ends_sessions: bool = False) -> TransactionShard:
        return TransactionShard(
            coordinator_epoch=0,
            settings=TransactionSettings(concurrent_wait_ms=50, transactional_id_expiration_ms=10**9),
            new_producer_id=self.new_producer_id,
            ends_sessions=ends_sessions,
        )

    def new_producer_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    # --- the shell ---

    def append(self, effects: Effects) -> None:
        for key, value in effects.records:
            self.check_step(key, value)
            self.log.append((key, value))
            self.shard.replay(key, value)

    def run(self, effects: Effects) -> None:
        self.append(effects)
        if effects.replies_wait or effects.actions:
            self.synced = len(self.log)
        for action in effects.actions:
            assert isinstance(action, WriteMarkers)
            self.requested.append((action, set(action.partitions)))
        effects.send()

    def replied(self, token: int, response: object) -> None:
        self.replies[token] = response
        waited = self.waiting.pop(token, None)
        if waited is not None and response == ErrorCode.NONE:
            self.write_data(token, *waited)

    def write_data(self, token: int, producer: Producer, producer_id: int, epoch: int, tp: TopicPartition) -> None:
        if self.partitions[tp].append(producer_id, epoch, token):
            producer.transaction.written.append((tp, token))

    def crash(self) -> None:
        self.restart(self.new_shard(ends_sessions=self.shard.has_sessions_to_end))

    def lose_power(self, seed: int) -> None:
        self.has_lost_power = True
        chance = random.Random(seed)
        del self.log[chance.randint(self.synced, len(self.log)) :]
        self.synced = len(self.log)
        self.partitions = {tp: held.lose_power(chance) for tp, held in self.partitions.items()}
        self.entries = {}
        for key, value in self.log:
            self.note_entry(key, value)
        self.restart(self.new_shard(ends_sessions=True))
        for tp, held in self.partitions.items():
            for producer_id, count in list(held.open_records.items()):
                epoch = held.epochs[producer_id]
                if count and not self.shard.holds(producer_id, epoch, tp):
                    assert held.mark(producer_id, epoch + 1, False, TransactionVersion.TV_2)

    def restart(self, shard: TransactionShard) -> None:
        self.requested.clear()
        self.unreported.clear()
        self.waiting.clear()
        self.shard = shard
        for key, value in self.log:
            self.shard.replay(key, value)
        self.run(self.shard.loaded(self.now_ms))

    def attempt(self, effects: Effects, fate: tuple[str, str, int] | None) -> bool:
        """Run the effects, unless the broker dies before or after it has appended them; then nobody is answered."""
        if fate is None:
            self.run(effects)
            return True
        when, how, seed = fate
        if when == "after":
            self.append(effects)
        if how == "killed":
            self.crash()
        else:
            self.lose_power(seed)
        return False

    # --- checks ---

    def note_entry(self, key: bytes, value: bytes | None) -> tuple[TransactionMetadata | None, TransactionMetadata]:
        """The entry before and after this record."""
        transactional_id = transactional_id_of(key)
        assert transactional_id is not None
        assert value is not None
        after = metadata_of(transactional_id, value)
        assert after is not None
        before = self.entries.get(transactional_id)
        self.entries[transactional_id] = after
        return before, after

    def check_step(self, key: bytes, value: bytes | None) -> None:
        before, after = self.note_entry(key, value)
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
            if held.epochs[ended.producer_id] > ended.producer_epoch and self.has_lost_power:
                continue  # an orphan was aborted there
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
                assert count == 0 or self.shard.holds(producer_id, held.epochs[producer_id], partition)

    def check_outcomes(self) -> None:
        visible = {tp: held.visible() for tp, held in self.partitions.items()}
        for transaction in self.ended + [producer.transaction for producer in self.producers]:
            seen = [value in visible[tp] for tp, value in transaction.written]
            if transaction.requested and transaction.answered:
                assert all(seen), "a record of a committed transaction is lost"
            elif transaction.requested:
                assert all(seen) or not any(seen), "one part of a transaction was committed, the other was not"
            else:
                assert not any(seen), "a record of a transaction that was never committed is visible"

    # --- what may happen ---

    producer = st.integers(0, 3)
    seed = st.integers(0, 1000)
    dies = st.one_of(
        *[st.none()] * 5,
        st.tuples(st.sampled_from(["before", "after"]), st.sampled_from(["killed", "no power"]), seed),
    )

    @rule(index=producer, goes_on=st.booleans(), dies=dies)
    def init(self, index: int, goes_on: bool, dies: tuple[str, str, int] | None) -> None:
        producer = self.producers[index]
        self.tokens += 1
        token = self.tokens
        request = m.InitProducerIdRequest(
            transactional_id=producer.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=producer.producer_id if goes_on else -1,
            producer_epoch=producer.epoch if goes_on else -1,
        )
        respond = partial(self.replied, token)
        if not self.attempt(self.shard.init_producer_id(respond, RequestContext(self.now_ms, 5), request), dies):
            return
        response = self.replies[token]
        assert isinstance(response, m.InitProducerIdResponse)
        if response.error_code == ErrorCode.NONE:
            producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch
            self.forget_transaction(producer)

    def forget_transaction(self, producer: Producer) -> None:
        self.ended.append(producer.transaction)
        producer.transaction = Transaction()

    @rule(index=producer, partition=st.sampled_from(PARTITIONS), dies=dies)
    def write(self, index: int, partition: TopicPartition, dies: tuple[str, str, int] | None) -> None:
        producer = self.producers[index]
        if producer.transaction.requested is not None:
            return  # a producer that waits for the end of its transaction writes nothing
        zombie = self.is_zombie(producer)
        self.tokens += 1
        token = self.tokens
        add = AddPartitions(
            producer.transactional_id, producer.producer_id, producer.epoch, frozenset({partition}), producer.version
        )
        entry = self.entries.get(producer.transactional_id)
        if not producer.version.bumps_epoch and entry is not None and entry.state != TransactionState.ONGOING:
            self.synced = len(self.log)  # the shell waits for that before it asks
        effects = self.shard.add_partitions(partial(self.replied, token), self.now_ms, add)
        assert not (zombie and effects.records)
        if not effects.replies:
            self.waiting[token] = (producer, producer.producer_id, producer.epoch, partition)
        if self.attempt(effects, dies) and self.replies.get(token) == ErrorCode.NONE:
            assert self.shard.verify(add)[partition] == ErrorCode.NONE
            self.write_data(token, producer, producer.producer_id, producer.epoch, partition)

    @rule(index=producer, commit=st.booleans(), dies=dies)
    def end(self, index: int, commit: bool, dies: tuple[str, str, int] | None) -> None:
        producer = self.producers[index]
        transaction = producer.transaction
        if transaction.requested is not None:
            commit = transaction.requested  # again, because there was no answer
        zombie = self.is_zombie(producer)
        self.tokens += 1
        token = self.tokens
        request = m.EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        entry = self.entries.get(producer.transactional_id)
        if commit and entry is not None:
            for tp in entry.partitions:
                self.partitions[tp].sync()  # the shell waits for that before it asks
        context = RequestContext(self.now_ms, producer.end_version)
        effects = self.shard.end_txn(partial(self.replied, token), context, request)
        assert not (zombie and effects.records)
        transaction.requested = commit
        if not self.attempt(effects, dies):
            return
        response = self.replies[token]
        assert isinstance(response, m.EndTxnResponse)
        if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        transaction.answered = response.error_code == ErrorCode.NONE
        self.forget_transaction(producer)
        if response.error_code == ErrorCode.NONE and producer.version.bumps_epoch and not zombie:
            producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch

    @rule(index=producer, tp=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3), is_written=st.booleans())
    def a_whole_transaction(self, index: int, tp: list[TopicPartition], is_written: bool) -> None:
        """As most of them are: all that was begun is ended, and nobody dies before the commit is answered."""
        self.all_markers_are_written()
        producer = self.producers[index]
        if producer.producer_id < 0 or self.is_zombie(producer) or producer.transaction.requested is not None:
            self.init(index, False, None)
            self.all_markers_are_written()
            self.init(index, False, None)
        for partition in tp:
            self.write(index, partition, None)
        self.end(index, True, None)
        if is_written:
            self.all_markers_are_written()

    def all_markers_are_written(self) -> None:
        while any(left for _, left in self.requested):
            self.write_a_marker(0)
        while self.unreported:
            self.report_a_marker()

    def is_zombie(self, producer: Producer) -> bool:
        entry = self.entries.get(producer.transactional_id)
        if entry is None:
            return False
        return (producer.producer_id, producer.epoch) < (entry.producer_id, entry.producer_epoch)

    @precondition(lambda self: any(left for _, left in self.requested))
    @rule(which=st.integers(0, 10))
    def write_a_marker(self, which: int) -> None:
        unwritten = [(markers, left) for markers, left in self.requested if left]
        markers, left = unwritten[which % len(unwritten)]
        partition = min(left)
        self.mark(partition, markers)
        left.discard(partition)
        self.unreported.append((markers, partition))

    def mark(self, partition: TopicPartition, markers: WriteMarkers) -> None:
        """A marker that is refused counts as written: somebody else has ended the transaction there."""
        epoch, version = markers.producer_epoch, markers.transaction_version
        if not self.partitions[partition].mark(markers.producer_id, epoch, markers.commit, version):
            assert self.has_lost_power

    @precondition(lambda self: self.unreported)
    @rule()
    def report_a_marker(self) -> None:
        """The marker is durable; only now does the coordinator hear of it."""
        markers, partition = self.unreported.pop(0)
        self.partitions[partition].sync()
        self.run(self.shard.markers_written(markers, [partition], self.now_ms))

    @rule(passed_ms=st.integers(1, 400))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.run(self.shard.tick(self.now_ms))

    @rule()
    def the_broker_dies(self) -> None:
        self.crash()

    @rule(seed=seed)
    def the_machine_goes_down(self, seed: int) -> None:
        self.lose_power(seed)

    def teardown(self) -> None:
        """Left alone, everything comes to its end."""
        self.crash()
        for _ in range(2):
            self.now_ms += TIMEOUT_MS + 1
            self.run(self.shard.tick(self.now_ms))
            for markers, left in list(self.requested):
                for partition in sorted(left):
                    self.mark(partition, markers)
                self.run(self.shard.markers_written(markers, markers.partitions, self.now_ms))
            self.requested.clear()
        for entry in self.entries.values():
            assert entry.state not in (ENDING | {TransactionState.ONGOING})
        for held in self.partitions.values():
            assert not any(held.open_records.values())
        self.check_outcomes()


World.TestCase.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)
TestTheCoordinatorInARandomWorld = World.TestCase
