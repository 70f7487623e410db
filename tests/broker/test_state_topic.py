from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.broker.file_range import FileRange
from penstock.broker.state_topic import StateWrites
from penstock.coordination.runtime import CoordinatorRuntime
from penstock.groups.shard import GroupShard
from penstock.storage.contract import FetchSlice
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.raw import RawClient
from tests.broker.test_metrics import figures

WAIT_SECONDS = 30


def commit(broker: Broker, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: Broker, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    [found] = consumer.committed([TopicPartition("t", 0)], WAIT_SECONDS)
    consumer.close()
    return int(found.offset)


def test_groups_stay_where_they_are_when_their_topic_grows(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    groups = [f"group-{number}" for number in range(10)]
    for number, group in enumerate(groups):
        commit(penstock_broker, group, number)
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("__consumer_offsets", 16)])["__consumer_offsets"].result(WAIT_SECONDS)
    assert [committed(penstock_broker, group) for group in groups] == list(range(10))


def test_groups_start_from_nothing_when_their_topic_was_deleted(
    penstock_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    penstock_broker.create_topic("t")
    commit(penstock_broker, "g", 7)
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    admin.delete_topics(["__consumer_offsets"])["__consumer_offsets"].result(WAIT_SECONDS)
    commit(penstock_broker, "another", 1)
    assert committed(penstock_broker, "g") < 0
    assert committed(penstock_broker, "another") == 1
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.penstock(offsets_topic_segment_bytes=1 << 20)
def test_what_does_not_fit_a_segment_is_refused_without_asking_the_client_to_try_again(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")

    def commit_times(times: int) -> set[int]:
        request = m.OffsetCommitRequest
        one = request.OffsetCommitRequestPartition(committed_offset=7, committed_metadata="m" * 4000)
        topic = request.OffsetCommitRequestTopic(name="t", partitions=[one] * times)
        with RawClient(penstock_broker.port) as client:
            response = client.ask(request(group_id="g", topics=[topic]), m.OffsetCommitResponse, 9)
        return {partition.error_code for partition in response.topics[0].partitions}

    commit(penstock_broker, "g", 1)
    assert commit_times(300) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert committed(penstock_broker, "g") == 1
    assert commit_times(3) == {ErrorCode.NONE}
    assert committed(penstock_broker, "g") == 7


def failing(times: int, original: Callable[..., object]) -> Callable[..., object]:
    """A method that fails when it is called first."""
    left = [times]

    def fail_first(*args: object) -> object:
        left[0] -= 1
        if left[0] >= 0:
            raise ValueError("a fault on purpose")
        return original(*args)

    return fail_first


def test_a_timer_of_a_shard_that_fails_runs_again(penstock_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the sessions of its members would never end."""
    penstock_broker.create_topic("t")
    commit(penstock_broker, "g", 1)
    monkeypatch.setattr(GroupShard, "tick", failing(1, GroupShard.tick))
    with RawClient(penstock_broker.port) as client:
        join = m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=500,
            rebalance_timeout_ms=500,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = client.ask(join, m.JoinGroupResponse, 3)
        assert joined.error_code == ErrorCode.NONE
        assert describe(client, "g") != "Empty"
        deadline = time.monotonic() + WAIT_SECONDS
        while describe(client, "g") != "Empty":
            assert time.monotonic() < deadline
            time.sleep(0.05)


def describe(client: RawClient, group: str) -> str:
    response = client.ask(m.DescribeGroupsRequest(groups=[group]), m.DescribeGroupsResponse, 0)
    return response.groups[0].group_state


def test_a_shard_that_cannot_be_loaded_does_not_keep_the_others_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [f"group-{number}" for number in range(8)]
    with Broker() as broker:
        broker.create_topic("t")
        for number, group in enumerate(groups):
            commit(broker, group, number)
        broker.stop()
        monkeypatch.setattr(CoordinatorRuntime, "_replay_batch", failing(1, CoordinatorRuntime._replay_batch))
        broker.start()
        runtime = broker._running().parts.groups.runtime
        deadline = time.monotonic() + WAIT_SECONDS
        while len(runtime.loaded_handles()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert runtime.is_loading


def test_a_coordinator_is_loaded_without_the_event_loop_waiting_for_the_disk(
    penstock_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock_broker.create_topic("t")
    commit(penstock_broker, "g", 7)
    penstock_broker.stop()
    warmed: list[tuple[int, int, int]] = []
    read_early: list[int] = []
    warm_up, read = FileRange.warm_up, FetchSlice.read

    def watched_warm_up(self: FileRange) -> None:
        assert threading.current_thread().name != "penstock-broker"
        warm_up(self)
        warmed.append((self.file.fd, self.position, self.size))

    def watched_read(self: FetchSlice) -> bytes:
        if self.file is not None and (self.file.fd, self.position, self.size) not in warmed:
            read_early.append(self.position)
        return read(self)

    monkeypatch.setattr(FileRange, "is_cached", lambda self: self.is_warm)
    monkeypatch.setattr(FileRange, "warm_up", watched_warm_up)
    monkeypatch.setattr(FetchSlice, "read", watched_read)
    penstock_broker.start()
    assert committed(penstock_broker, "g") == 7
    assert warmed
    assert read_early == []


def test_an_offsets_topic_that_was_made_by_hand_is_used(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    made = NewTopic("__consumer_offsets", 3, config={"cleanup.policy": "compact", "segment.ms": "3600000"})
    admin.create_topics([made])["__consumer_offsets"].result(WAIT_SECONDS)
    groups = [f"group-{number}" for number in range(10)]
    for number, group in enumerate(groups):
        commit(penstock_broker, group, number)
    penstock_broker.restart()
    assert [committed(penstock_broker, group) for group in groups] == list(range(10))
    used = [path for path in penstock_broker.data.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    assert {path.parent.name for path in used} == {f"__consumer_offsets-{index}" for index in range(3)}
    assert admin.list_topics("__consumer_offsets").topics["__consumer_offsets"].partitions.keys() == {0, 1, 2}


def test_writes_are_counted_and_how_long_they_fail_is_told() -> None:
    with Broker({"penstock.acks.all.flush": "true"}) as broker:
        broker.create_topic("t")
        commit(broker, "g", 7)
        found = figures(broker)
        topic = '{topic="__consumer_offsets"}'
        assert found["penstock_coordinator_writes_total" + topic] >= 1
        assert found["penstock_coordinator_write_time_ms_count" + topic] >= 1
        assert found["penstock_coordinator_write_failures_total" + topic] == 0
        assert found["penstock_coordinator_writes_failing_seconds" + topic] == 0


def test_writes_fail_from_the_first_failure_to_the_next_success() -> None:
    writes = StateWrites()
    writes.did_not_succeed(5.0)
    writes.did_not_succeed(9.0)
    assert (writes.failed, writes.failing_since) == (2, 5.0)
    writes.succeeded()
    assert (writes.written, writes.failing_since) == (1, None)
