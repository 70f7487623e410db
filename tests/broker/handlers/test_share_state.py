"""The share coordinator's own APIs over the wire, as a tool would call them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.disk import SlowDisk
from tests.broker.handlers.records import topic_id
from tests.broker.share import share_client
from tests.broker.share.share_client import ShareMember, acquired
from tests.transactions.wire_client import Wire

NONE, INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOWHERE = bytes(range(16))
AVAILABLE = 0
Initialize, Read, Write = (
    m.InitializeShareGroupStateRequest,
    m.ReadShareGroupStateRequest,
    m.WriteShareGroupStateRequest,
)
Delete, Summary = m.DeleteShareGroupStateRequest, m.ReadShareGroupStateSummaryRequest


@pytest.fixture
def jobs(wire: Wire, topic: str) -> bytes:
    """The id of a topic with two partitions."""
    return topic_id(wire, topic)


def initialize(wire: Wire, group: str, topic: bytes, *indexes: int, start: int = 0, epoch: int = 0) -> list[int]:
    parts = [Initialize.PartitionData(partition=each, state_epoch=epoch, start_offset=start) for each in indexes]
    body = Initialize(group_id=group, topics=[Initialize.InitializeStateData(topic_id=topic, partitions=parts)])
    answer = wire.ask(body, m.InitializeShareGroupStateResponse, 0)
    return [part.error_code for each in answer.results for part in each.partitions]


def read(
    wire: Wire, group: str, topic: bytes, index: int = 0, leader_epoch: int = -1
) -> m.ReadShareGroupStateResponse.PartitionResult:
    part = Read.PartitionData(partition=index, leader_epoch=leader_epoch)
    body = Read(group_id=group, topics=[Read.ReadStateData(topic_id=topic, partitions=[part])])
    return wire.ask(body, m.ReadShareGroupStateResponse, 0).results[0].partitions[0]


def write(
    wire: Wire, group: str, topic: bytes, *batches: tuple[int, int], start: int = 0, epoch: int = 0, leader: int = -1
) -> int:
    part = Write.PartitionData(partition=0, state_epoch=epoch, leader_epoch=leader, start_offset=start)
    part.state_batches = [
        Write.StateBatch(first_offset=first, last_offset=last, delivery_state=AVAILABLE, delivery_count=2)
        for first, last in batches
    ]
    body = Write(group_id=group, topics=[Write.WriteStateData(topic_id=topic, partitions=[part])])
    return wire.ask(body, m.WriteShareGroupStateResponse, 0).results[0].partitions[0].error_code


def delete(wire: Wire, group: str, topic: bytes, index: int = 0) -> int:
    part = Delete.PartitionData(partition=index)
    body = Delete(group_id=group, topics=[Delete.DeleteStateData(topic_id=topic, partitions=[part])])
    return wire.ask(body, m.DeleteShareGroupStateResponse, 0).results[0].partitions[0].error_code


def summary(wire: Wire, group: str, topic: bytes, index: int = 0) -> tuple[int, int]:
    part = Summary.PartitionData(partition=index, leader_epoch=-1)
    body = Summary(group_id=group, topics=[Summary.ReadStateSummaryData(topic_id=topic, partitions=[part])])
    found = wire.ask(body, m.ReadShareGroupStateSummaryResponse, 0).results[0].partitions[0]
    return found.error_code, found.start_offset


class TestState:
    def test_what_was_initialized_and_written_is_read(self, wire: Wire, name: str, jobs: bytes) -> None:
        assert initialize(wire, name, jobs, 0, start=5) == [NONE]
        assert write(wire, name, jobs, (7, 9), start=7) == NONE
        state = read(wire, name, jobs)
        assert (state.error_code, state.start_offset) == (NONE, 7)
        assert [(each.first_offset, each.last_offset, each.delivery_count) for each in state.state_batches] == [
            (7, 9, 2)
        ]
        assert summary(wire, name, jobs) == (NONE, 7)

    def test_what_was_not_initialized_has_no_state(self, wire: Wire, name: str, jobs: bytes) -> None:
        assert read(wire, name, jobs).error_code == INVALID_REQUEST
        assert write(wire, name, jobs, (0, 1)) == INVALID_REQUEST
        assert summary(wire, name, jobs) == (NONE, -1)

    def test_deleted_state_is_gone_and_deleting_again_is_fine(self, wire: Wire, name: str, jobs: bytes) -> None:
        initialize(wire, name, jobs, 0)
        assert [delete(wire, name, jobs), delete(wire, name, jobs)] == [NONE, NONE]
        assert read(wire, name, jobs).error_code == INVALID_REQUEST

    def test_older_epochs_are_fenced(self, wire: Wire, name: str, jobs: bytes) -> None:
        initialize(wire, name, jobs, 0, epoch=3)
        assert initialize(wire, name, jobs, 0, epoch=2) == [ErrorCode.FENCED_STATE_EPOCH]
        assert write(wire, name, jobs, epoch=2) == ErrorCode.FENCED_STATE_EPOCH
        assert read(wire, name, jobs, leader_epoch=4).error_code == NONE
        assert write(wire, name, jobs, epoch=3, leader=3) == ErrorCode.FENCED_LEADER_EPOCH


class TestManyPartitions:
    def test_each_is_handled_by_itself_and_answered_in_the_order_of_the_request(
        self, wire: Wire, name: str, jobs: bytes
    ) -> None:
        assert initialize(wire, name, jobs, 9, 1, -1, 0) == [UNKNOWN, NONE, INVALID_REQUEST, NONE]

    def test_what_does_not_exist_cannot_be_deleted_or_summed_up_either(
        self, wire: Wire, name: str, jobs: bytes
    ) -> None:
        for topic, index in ((jobs, 9), (NOWHERE, 0)):
            assert delete(wire, name, topic, index) == UNKNOWN
            assert summary(wire, name, topic, index)[0] == UNKNOWN

    def test_without_a_group_there_are_no_results_at_all(self, wire: Wire, jobs: bytes) -> None:
        assert initialize(wire, "", jobs, 0) == []

    def test_nor_with_a_topic_without_partitions_unless_it_is_to_be_initialized(
        self, wire: Wire, name: str, jobs: bytes
    ) -> None:
        initialize(wire, name, jobs, 0)
        full = Summary.ReadStateSummaryData(topic_id=jobs, partitions=[Summary.PartitionData(partition=0)])
        empty = Summary.ReadStateSummaryData(topic_id=NOWHERE)
        answer = wire.ask(Summary(group_id=name, topics=[full, empty]), m.ReadShareGroupStateSummaryResponse, 0)
        assert answer.results == []
        parts = [Initialize.PartitionData(partition=1, state_epoch=0, start_offset=0)]
        topics = [
            Initialize.InitializeStateData(topic_id=jobs, partitions=parts),
            Initialize.InitializeStateData(topic_id=NOWHERE),
        ]
        made = wire.ask(Initialize(group_id=name, topics=topics), m.InitializeShareGroupStateResponse, 0)
        assert [each.topic_id for each in made.results] == [jobs]


class TestWindowsInUse:
    @pytest.fixture
    def broker(self) -> Iterator[Broker]:
        with Broker() as it:
            it.create_topic("jobs")
            yield it

    def test_state_that_is_changed_from_outside_is_what_consumers_get_next(self, broker: Broker) -> None:
        with share_client.Wire(broker) as consumer:
            share_client.produce(consumer, "jobs", [b"a", b"b", b"c"], batch_size=1)
            jobs = share_client.topic_id(consumer, "jobs")
            assert share_client.initialize(consumer, "g", jobs) == [0]
            member = ShareMember(consumer, "g", "m" * 22, jobs)
            assert acquired(member.fetch(max_wait_ms=5000))[0][0] == 0
            tool = Wire(broker.port)
            assert write(tool, "g", jobs, start=2, epoch=-1) == NONE
            tool.close()
            member.epoch = 0
            (first, *_), *_ = acquired(member.fetch(max_wait_ms=5000))
            assert first == 2


def test_a_write_of_another_broker_is_confirmed_when_written_and_the_disk_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    with Broker({"penstock.acks.all.flush": "true"}) as broker, Wire(broker.port) as wire:
        broker.create_topic("jobs")
        topic = topic_id(wire, "jobs")
        assert initialize(wire, "g", topic, 0) == [0]
        disk.stall()
        assert write(wire, "g", topic, (0, 4)) == 0
        assert not disk.has_synced.is_set()
        disk.go_on()
        assert disk.has_synced.wait(30)


def test_a_write_of_another_broker_waits_for_the_disk_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    configs = {"penstock.acks.all.flush": "true", "penstock.share.flush.interval.ms": 0}
    with Broker(configs) as broker, Wire(broker.port) as wire:
        broker.create_topic("jobs")
        topic = topic_id(wire, "jobs")
        assert initialize(wire, "g", topic, 0) == [0]
        disk.stall()
        timer = threading.Timer(0.2, disk.go_on)
        timer.start()
        assert write(wire, "g", topic, (0, 4)) == 0
        assert disk.has_synced.is_set()
