"""A window and the log below it: restarts, moving log starts, isolation, waits of the records' own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from penstock.broker.file_range import FileRange
from penstock.broker.share.coordinator import Outcome, Ownership, ShareCoordinator
from penstock.queues.transitions import StateWrite
from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import CoordinatorNotAvailable, ErrorCode
from tests.broker.cold_disk import drop_from_memory
from tests.broker.share.share_client import (
    ACCEPT,
    RELEASE,
    Wire,
    ack_errors,
    acquired,
    delete_records,
    initialize,
    member,
    produce,
    set_group_configs,
    topic_id,
    values,
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.share.min.record.lock.duration.ms": 1000}) as it:
        it.create_topic("jobs")
        yield it


def test_records_that_are_on_disk_only_are_read_by_a_thread_and_delivered(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(wire, "jobs", [b"%d" % i for i in range(20)], batch_size=6)
    initialize(wire, "g", topic_id(wire, "jobs"))
    [segment] = broker.data.rglob("jobs-0/*.log")
    with segment.open("rb") as file:
        drop_from_memory(file.fileno())
    readers: list[threading.Thread] = []
    warm_up = FileRange.warm_up

    def watched(self: FileRange) -> None:
        readers.append(threading.current_thread())
        warm_up(self)

    monkeypatch.setattr(FileRange, "warm_up", watched)
    response = member(wire).fetch(max_wait_ms=10_000)
    assert values(response) == [b"%d" % i for i in range(20)]
    assert [reader.name for reader in readers if reader.name == "penstock-broker"] == []
    assert readers, "the range was not evicted: nothing was shown"


def test_a_thread_that_cannot_read_ahead_does_not_hold_the_queue_up(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic_id(wire, "jobs"))

    def fails(self: FileRange) -> None:
        raise OSError("the disk is tired")

    monkeypatch.setattr(FileRange, "is_cached", lambda self: False)
    monkeypatch.setattr(FileRange, "warm_up", fails)
    assert values(member(wire).fetch(max_wait_ms=10_000)) == [b"1", b"2"]


def test_the_window_moves_with_the_log_start(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [b"%d" % i for i in range(10)])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    assert acquired(worker.fetch(max_records=4)) == [(0, 3, 1)]
    delete_records(wire, "jobs", 6)
    assert ack_errors(worker.acknowledge({0: [(0, 3, ACCEPT)]})) == [0]
    assert acquired(worker.fetch()) == [(6, 9, 1)]


def test_what_is_over_is_confirmed_again_only_when_that_is_stored(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that ended the record is still under way: it may fail, and then the record comes again."""
    writes: list[StateWrite] = []
    write, is_under_way = ShareCoordinator.write, threading.Event()

    def watched(
        self: ShareCoordinator, owner: Ownership, leader_epoch: int, change: StateWrite, outcome: Outcome
    ) -> bool:
        writes.append(change)
        if len(writes) == 1:
            is_under_way.set()
            return False  # and nobody ever hears of it
        if len(writes) == 2:
            raise CoordinatorNotAvailable
        return write(self, owner, leader_epoch, change, outcome)

    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    with Wire(broker) as other:
        first, second = member(wire), member(other, member_id="m2")
        first.fetch(max_records=1)
        assert acquired(second.fetch()) == [(1, 1, 1)]
        monkeypatch.setattr(ShareCoordinator, "write", watched)
        first.send_fetch(acks={0: [(0, 0, ACCEPT)]})
        assert is_under_way.wait(30)
        assert ack_errors(second.acknowledge({0: [(0, 0, ACCEPT)]})) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert ack_errors(second.acknowledge({0: [(0, 0, ACCEPT)]})) == [0]
        assert [each.start_offset for each in writes] == [1, 1, 1]


def test_what_is_over_and_stored_is_confirmed_again_without_a_write(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    worker.fetch()
    assert ack_errors(worker.acknowledge({0: [(0, 0, ACCEPT)]})) == [0]
    monkeypatch.setattr(ShareCoordinator, "write", None)
    assert ack_errors(worker.acknowledge({0: [(0, 0, ACCEPT)]})) == [0]


def test_a_released_record_waits_out_its_backoff(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_retry_backoff_ms=300)
    produce(wire, "jobs", [b"failing"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    worker.fetch()
    response = worker.fetch(acks={0: [(0, 0, RELEASE)]})
    assert (ack_errors(response), acquired(response)) == ([0], [])
    assert acquired(worker.fetch(max_wait_ms=15_000)) == [(0, 0, 2)]


def test_a_backoff_holds_over_a_restart(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_retry_backoff_ms=30_000)
    produce(wire, "jobs", [b"failing", b"next"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    worker.fetch(max_records=1)
    worker.acknowledge({0: [(0, 0, RELEASE)]})
    broker.restart()
    with Wire(broker) as again:
        assert values(member(again, member_id="m2").fetch()) == [b"next"]


def test_a_backoff_that_a_restart_began_anew_comes_to_its_end(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_retry_backoff_ms=1_500)
    produce(wire, "jobs", [b"failing"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    worker.fetch()
    worker.acknowledge({0: [(0, 0, RELEASE)]})
    broker.restart()
    with Wire(broker) as again:
        assert acquired(member(again, member_id="m2").fetch(max_wait_ms=15_000)) == [(0, 0, 2)]


def test_a_header_delays_the_delivery_of_its_record(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_delivery_time_header="deliver.at")
    soon_ms = int(time.time() * 1000) + 3_000
    batch = build_batch([(0, None, b"later", [("deliver.at", b"%d" % soon_ms)]), (0, None, b"now", ())])
    data = m.ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    topic = m.ProduceRequest.TopicProduceData(name="jobs", partition_data=[data])
    wire.ask(ApiKey.PRODUCE, 9, m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), m.ProduceResponse)
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    assert values(worker.fetch()) == [b"now"]
    assert values(worker.fetch(max_wait_ms=15_000)) == [b"later"]
    assert time.time() * 1000 >= soon_ms


def test_a_delivery_time_holds_over_a_restart(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_delivery_time_header="deliver.at")
    far_ms = int(time.time() * 1000) + 3_600_000
    batch = build_batch([(0, None, b"later", [("deliver.at", b"%d" % far_ms)]), (0, None, b"now", ())])
    data = m.ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    topic = m.ProduceRequest.TopicProduceData(name="jobs", partition_data=[data])
    wire.ask(ApiKey.PRODUCE, 9, m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), m.ProduceResponse)
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    assert values(worker.fetch()) == [b"now"]
    worker.acknowledge({0: [(1, 1, ACCEPT)]})
    broker.restart()
    with Wire(broker) as again:
        assert values(member(again, member_id="m2").fetch()) == []
