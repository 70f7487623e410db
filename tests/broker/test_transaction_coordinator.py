"""The transaction coordinator over an internal topic and partitions in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from penstock.broker.config import BrokerConfig
from penstock.broker.transaction_coordinator import TransactionCoordinator
from penstock.coordination.context import RequestContext
from penstock.storage.contract import ActiveProducer, AppendOrigin, StorageError
from penstock.testing import Broker
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions, WriteMarkers
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, UnknownTopicOrPartition
from tests.broker.simulated_world import SimulatedWorld
from tests.broker.test_metrics import figures
from tests.coordination.simulated import SimulatedTopic

TP = ("orders", 0)
NONE = ErrorCode.NONE


class Partition:
    """A partition with its log, which knows up to which offset each producer has written."""

    def __init__(self) -> None:
        self.topic = SimpleNamespace(name="orders", partitions=[self])
        self.index = 0
        self.leader_epoch = 0
        self.log = self
        self.producers: list[ActiveProducer] = []
        self.written: dict[int, int] = {}
        self.durable_offset = 0
        self.markers = 0
        self.failure: StorageError | None = None

    def write(self, producer_id: int) -> None:
        self.written[producer_id] = self.durable_offset + 1

    def undurable_end(self, producer_id: int) -> int | None:
        end = self.written.get(producer_id, 0)
        return end if end > self.durable_offset else None

    def active_producers(self) -> list[ActiveProducer]:
        return self.producers

    def append(self, batch: memoryview, header: object, *, origin: AppendOrigin, **fields: object) -> SimpleNamespace:
        if self.failure is not None:
            raise self.failure
        self.markers += 1
        return SimpleNamespace(position=self.durable_offset + 1)

    def wake(self) -> None:
        """Nobody waits."""


class Cluster:
    def __init__(self, state: SimulatedTopic, orders: Partition, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self.elsewhere: int | None = None
        self.orders: Partition | None = orders
        self._state = state

    def hosted(self, name: str, index: int) -> Partition:
        if (name, index) != TP or self.orders is None:
            raise UnknownTopicOrPartition
        return self.orders

    def leader_elsewhere(self, name: str, index: int) -> int | None:
        return self.elsewhere

    def find_topic(self, name: str) -> object:
        return self._state.find() if name == "__transaction_state" else None

    def topic(self, name: str) -> SimpleNamespace:
        partition = SimpleNamespace(leader_epoch=0)
        return SimpleNamespace(find_open=lambda index: partition)

    def hosted_partitions(self) -> list[Partition]:
        return [self.orders] if self.orders is not None else []


class Durability:
    """Appends become durable when the test calls `sync`."""

    is_awaited = True

    def __init__(self) -> None:
        self.waits: list[tuple[list[tuple[Partition, int]], object]] = []

    def when_durable(self, appends: list[tuple[Partition, int]], then: object) -> None:
        self.waits.append((appends, then))

    def sync(self, failure: StorageError | None = None) -> None:
        waits, self.waits = self.waits, []
        for appends, then in waits:
            for partition, position in appends if failure is None else ():
                partition.durable_offset = max(partition.durable_offset, position)
            then(failure)  # type: ignore[operator]


class MarkersElsewhere:
    """Markers that other brokers are requested to write, answered by the test."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[TopicPartition]]] = []
        self._done: list[Callable[[ErrorCode | None], None]] = []

    def send(
        self,
        node_id: int,
        markers: WriteMarkers,
        partitions: list[TopicPartition],
        done: Callable[[TopicPartition, ErrorCode | None], None],
    ) -> None:
        self.sent.append((node_id, partitions))
        self._done += [lambda code, tp=tp: done(tp, code) for tp in partitions]  # type: ignore[misc]

    def answer(self, code: ErrorCode | None) -> None:
        waiting, self._done = self._done, []
        for done in waiting:
            done(code)


class World:
    def __init__(
        self,
        state: SimulatedTopic | None = None,
        *,
        orders: Partition | None = None,
        power_was_lost: bool = False,
        loads: bool = True,
        is_shared: bool = False,
    ) -> None:
        self.state = state or SimulatedTopic(1)
        self.time = SimulatedWorld()
        self.cluster = Cluster(self.state, orders or Partition(), is_shared=is_shared)
        self.durability = Durability()
        self.settled = 0
        self.requests = MarkersElsewhere()
        self.is_deleted = True
        self.coordinator = TransactionCoordinator(
            BrokerConfig({}),
            SimpleNamespace(level=lambda name: 2, listeners=[]),  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            lambda name, partitions, configs, *_: self.state,
            self.durability,  # type: ignore[arg-type]
            self.time,
            new_producer_id=lambda: 7,
            groups=lambda: SimpleNamespace(when_loaded=lambda then: then()),  # type: ignore[arg-type, return-value]
            marker_requests=self.requests,  # type: ignore[arg-type]
            is_deleted=lambda name, index: self.is_deleted,
            may_have_lost_writes=power_was_lost,
            lost_writes_settled=self._settled,
        )
        self.coordinator.start()
        if loads:
            self.time.run_tasks()
        self.time.pass_ms(0)

    def _settled(self) -> None:
        self.settled += 1

    def context(self) -> RequestContext:
        return RequestContext(self.coordinator.time.now_ms(), 5)

    def init(self) -> int:
        handle = self.coordinator.find("shop")
        responses: list[m.InitProducerIdResponse] = []
        request = m.InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=60_000)
        handle.run(handle.shard.init_producer_id(responses.append, self.context(), request))
        return responses[0].producer_epoch

    def add(self, epoch: int, version: TransactionVersion = TransactionVersion.TV_2) -> list[ErrorCode]:
        codes: list[ErrorCode] = []
        self.coordinator.add_partitions(AddPartitions("shop", 7, epoch, frozenset({TP}), version), codes.append)
        return codes

    def end(self, epoch: int, *, commit: bool, version: int = 5) -> list[m.EndTxnResponse]:
        responses: list[m.EndTxnResponse] = []
        request = m.EndTxnRequest(transactional_id="shop", producer_id=7, producer_epoch=epoch, committed=commit)
        context = RequestContext(self.coordinator.time.now_ms(), version)
        self.coordinator.end_txn(responses.append, context, request)
        return responses

    def transaction(self) -> TransactionState:
        meta = self.coordinator.find("shop").shard.metadata("shop")
        assert meta is not None
        return meta.state

    def written(self) -> int:
        """A transaction with a batch that is not durable yet; its epoch."""
        epoch = self.init()
        assert self.add(epoch) == [NONE]
        assert self.cluster.orders is not None
        self.cluster.orders.write(7)
        return epoch


def test_a_commit_is_decided_when_all_that_was_written_is_durable() -> None:
    world = World()
    epoch = world.written()
    answers = world.end(epoch, commit=True)
    assert (answers, world.transaction()) == ([], TransactionState.ONGOING)
    world.durability.sync()
    assert [answer.error_code for answer in answers] == [NONE]
    assert world.transaction() == TransactionState.PREPARE_COMMIT
    world.durability.sync()  # the marker
    assert world.transaction() == TransactionState.COMPLETE_COMMIT


def test_an_abort_is_decided_at_once() -> None:
    world = World()
    answers = world.end(world.written(), commit=False)
    assert [answer.error_code for answer in answers] == [NONE]
    assert world.transaction() == TransactionState.PREPARE_ABORT


def test_no_commit_is_decided_on_a_disk_that_failed() -> None:
    world = World()
    answers = world.end(world.written(), commit=True)
    world.durability.sync(StorageError("gone"))
    assert [answer.error_code for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.transaction() == TransactionState.ONGOING


def test_no_marker_is_written_before_the_decision_is_durable() -> None:
    world = World()
    epoch = world.written()
    assert world.cluster.orders is not None
    assert world.state.logs is not None
    world.state.logs[0].syncs_at_once = False
    answers = world.end(epoch, commit=False)
    assert (answers, world.cluster.orders.markers) == ([], 0)
    world.state.logs[0].sync()
    assert (len(answers), world.cluster.orders.markers) == (1, 1)


def test_a_marker_that_cannot_be_written_is_tried_again() -> None:
    world = World()
    epoch = world.written()
    assert world.cluster.orders is not None
    world.cluster.orders.failure = StorageError("full")
    world.end(epoch, commit=False)
    world.cluster.orders.failure = None
    world.time.pass_ms(200)
    world.durability.sync()
    assert world.transaction() == TransactionState.COMPLETE_ABORT


def test_a_partition_that_exists_no_more_needs_no_marker() -> None:
    world = World()
    epoch = world.written()
    world.cluster.orders = None
    world.end(epoch, commit=True)
    assert world.transaction() == TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [TransactionVersion.TV_0, TransactionVersion.TV_2])
def test_only_a_classic_transaction_waits_for_the_completion_of_the_last_one(version: TransactionVersion) -> None:
    world = World()
    epoch = world.init()
    assert world.add(epoch, version) == [NONE]
    answers = world.end(epoch, commit=False, version=5 if version.bumps_epoch else 4)
    assert world.state.logs is not None
    world.state.logs[0].syncs_at_once = False
    world.durability.sync()
    assert world.transaction() == TransactionState.COMPLETE_ABORT
    codes = world.add(answers[0].producer_epoch if version.bumps_epoch else epoch, version)
    assert codes == ([NONE] if version.bumps_epoch else [])
    world.state.logs[0].sync()
    assert codes == [NONE]


def test_markers_that_are_not_written_at_the_stop_are_written_after_the_next_start() -> None:
    before = World()
    epoch = before.written()
    assert before.cluster.orders is not None
    before.cluster.orders.failure = StorageError("full")
    before.end(epoch, commit=False)
    before.coordinator.stop()
    before.cluster.orders.failure = None
    before.time.pass_ms(1_000)
    assert before.cluster.orders.markers == 0
    after = World(before.state)
    after.durability.sync()
    assert after.transaction() == TransactionState.COMPLETE_ABORT


def test_after_a_power_cut_open_transactions_are_aborted_and_producers_fenced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = World()
    epoch = before.written()
    after = World(before.state, power_was_lost=True)
    assert "transactional producers are fenced" in caplog.text
    assert after.add(epoch) in ([], [ErrorCode.PRODUCER_FENCED], [ErrorCode.INVALID_PRODUCER_EPOCH])
    after.durability.sync()
    assert after.transaction() == TransactionState.COMPLETE_ABORT
    assert after.add(epoch) == [ErrorCode.PRODUCER_FENCED]
    assert after.settled == 1


def test_lost_writes_are_not_settled_before_the_last_producer_is_fenced() -> None:
    before = World()
    before.end(before.written(), commit=False)
    after = World(before.state, power_was_lost=True)
    assert after.settled == 0
    after.durability.sync()  # the markers of the transaction that was already decided
    assert after.settled == 1


def test_a_transaction_that_no_coordinator_knows_is_aborted_after_a_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    orders = Partition()
    orders.producers = [ActiveProducer(9, 0, 0, 0, -1, transaction_first_offset=0)]
    World(orders=orders)
    assert orders.markers == 1
    assert "that no coordinator knows" in caplog.text


def test_who_asks_before_the_coordinator_is_loaded_is_told_to_wait() -> None:
    before = World()
    before.written()
    world = World(before.state, loads=False)
    assert world.add(0) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    verified = world.coordinator.verify(AddPartitions("shop", 7, 0, frozenset({TP}), TransactionVersion.TV_0))
    assert verified == {TP: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    world.coordinator.stop()


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_neither_shortens_nor_prolongs_a_transaction(ahead_ms: int) -> None:
    world = World()
    world.add(world.init())
    world.time.clock_ahead_ms = ahead_ms
    world.time.pass_ms(59_000)
    assert world.transaction() == TransactionState.ONGOING
    world.time.pass_ms(20_000)
    assert world.transaction() != TransactionState.ONGOING


def test_transactions_are_counted_by_state_with_the_age_of_the_oldest_open_one() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(30)
        before = figures(broker)
        producer.begin_transaction()
        producer.produce("orders", b"v")
        producer.flush(30)
        during = figures(broker)
        producer.commit_transaction(30)
        after = figures(broker)
    assert before['penstock_transactional_ids{state="Empty"}'] == 1
    assert before["penstock_transaction_oldest_open_seconds"] == 0
    assert during['penstock_transactional_ids{state="Ongoing"}'] == 1
    assert during["penstock_transaction_oldest_open_seconds"] > 0
    assert after['penstock_transactional_ids{state="Ongoing"}'] == 0
    assert after["penstock_transaction_oldest_open_seconds"] == 0


def ends_elsewhere() -> World:
    """A transaction that has been decided, with its partition on broker 2."""
    world = World(is_shared=True)
    world.cluster.elsewhere = 2
    epoch = world.init()
    assert world.add(epoch) == [ErrorCode.NONE]
    world.end(epoch, commit=True)
    return world


def test_a_partition_elsewhere_gets_its_marker_from_the_broker_that_leads_it() -> None:
    world = ends_elsewhere()
    assert world.requests.sent == [(2, [TP])]
    assert world.cluster.orders is not None
    assert world.cluster.orders.markers == 0
    assert world.transaction() is TransactionState.PREPARE_COMMIT
    world.requests.answer(ErrorCode.NONE)
    assert world.transaction() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    "code", [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT]
)
def test_a_marker_that_is_not_known_to_be_written_elsewhere_is_requested_again(code: ErrorCode | None) -> None:
    world = ends_elsewhere()
    for attempt in range(1, 4):
        assert len(world.requests.sent) == attempt
        world.requests.answer(code)
        world.time.pass_ms(100)
    world.requests.answer(ErrorCode.NONE)
    assert world.transaction() is TransactionState.COMPLETE_COMMIT


def test_a_marker_follows_a_partition_that_moves_here() -> None:
    world = ends_elsewhere()
    world.cluster.elsewhere = None
    world.requests.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.time.pass_ms(100)
    assert world.cluster.orders is not None
    assert world.cluster.orders.markers == 1


def test_a_partition_that_is_unknown_elsewhere_needs_no_marker_only_if_the_catalog_confirms_it() -> None:
    world = ends_elsewhere()
    world.is_deleted = False
    world.requests.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.transaction() is TransactionState.PREPARE_COMMIT
    world.time.pass_ms(100)
    world.is_deleted = True
    world.requests.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.transaction() is TransactionState.COMPLETE_COMMIT


def test_a_partition_that_saw_a_newer_epoch_elsewhere_needs_no_marker() -> None:
    world = ends_elsewhere()
    world.requests.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert world.transaction() is TransactionState.COMPLETE_COMMIT


def test_among_several_brokers_nobody_looks_for_orphans() -> None:
    orders = Partition()
    orders.producers = [ActiveProducer(9, 0, 0, 0, -1, transaction_first_offset=0)]
    world = World(orders=orders, is_shared=True)
    assert orders.markers == 0
    world.coordinator.stop()
