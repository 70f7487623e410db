"""ShareFetch and ShareAcknowledge, request by request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    ack_errors,
    acquired,
    initialize,
    produce,
    topic_id,
    values,
)

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
GROUP = "g"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.share.record.lock.duration.ms": 1000, "group.share.min.record.lock.duration.ms": 1000}) as it:
        yield it


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as it:
        yield it


class Stage:
    """A topic of its own, initialized for the group, and members on connections of their own."""

    def __init__(self, broker: Broker, wire: Wire, name: str) -> None:
        broker.create_topic(name, 2)
        self.broker = broker
        self.wire = wire
        self.name = name
        self.topic = topic_id(wire, name)
        self._wires: list[Wire] = []
        assert initialize(wire, GROUP, self.topic, 2) == [0, 0]

    def member(self, member_id: str = "m1", version: int = 2) -> ShareMember:
        wire = Wire(self.broker)
        self._wires.append(wire)
        return ShareMember(wire, GROUP, member_id, self.topic, version)

    def produce(self, number: int, *, batch_size: int = 1_000_000, partition: int = 0) -> None:
        produce(self.wire, self.name, [b"%d" % i for i in range(number)], partition, batch_size=batch_size)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


@pytest.fixture
def stage(broker: Broker, wire: Wire, request: pytest.FixtureRequest) -> Iterator[Stage]:
    name = "t" + str(abs(hash(request.node.name)))
    it = Stage(broker, wire, name)
    yield it
    it.close()


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("version", [1, 2])
def test_a_fetch_gets_the_records_it_asked_for_however_they_were_batched(
    stage: Stage, batch_size: int, version: int
) -> None:
    stage.produce(100, batch_size=batch_size)
    first, second = stage.member("m1", version), stage.member("m2", version)
    one, two = first.fetch(max_records=20), second.fetch(max_records=20)
    assert (acquired(one), values(one)) == ([(0, 19, 1)], [b"%d" % i for i in range(20)])
    assert (acquired(two), values(two)) == ([(20, 39, 1)], [b"%d" % i for i in range(20, 40)])


def test_the_first_response_names_all_partitions_and_later_ones_the_news(stage: Stage) -> None:
    member = stage.member()
    opened = member.fetch(partitions=(0, 1))
    assert sorted(data.partition_index for data in opened.responses[0].partitions) == [0, 1]
    assert opened.acquisition_lock_timeout_ms == 1000
    assert member.fetch().responses == []
    stage.produce(1, partition=1)
    news = member.fetch()
    assert [data.partition_index for data in news.responses[0].partitions] == [1]


def test_acknowledgements_ride_on_a_fetch(stage: Stage) -> None:
    stage.produce(10)
    member = stage.member()
    member.fetch(max_records=4)
    response = member.fetch(acks={0: [(0, 2, ACCEPT), (3, 3, RELEASE)]}, max_records=3)
    assert ack_errors(response) == [0]
    assert acquired(response) == [(3, 3, 2), (4, 5, 1)]


def test_acknowledgements_come_by_themselves(stage: Stage) -> None:
    stage.produce(10)
    member = stage.member()
    member.fetch()
    assert ack_errors(member.acknowledge({0: [(0, 9, [1, 2, 3, 1, 1, 1, 1, 1, 1, 2])]})) == [0]
    assert acquired(member.fetch()) == [(1, 1, 2), (9, 9, 2)]


def test_a_fetch_waits_for_records(stage: Stage) -> None:
    member = stage.member()
    member.fetch()
    member.send_fetch(max_wait_ms=15_000)
    stage.produce(3)
    assert acquired(member.receive_fetch()) == [(0, 2, 1)]


def test_a_fetch_waits_for_a_release(stage: Stage) -> None:
    stage.produce(1)
    holder, waiter = stage.member("holder"), stage.member("waiter")
    holder.fetch()
    waiter.send_fetch(max_wait_ms=15_000)
    holder.acknowledge({0: [(0, 0, RELEASE)]})
    assert acquired(waiter.receive_fetch()) == [(0, 0, 2)]


def test_a_fetch_waits_for_a_lock_to_run_out(stage: Stage) -> None:
    stage.produce(1)
    holder, waiter = stage.member("holder"), stage.member("waiter")
    holder.fetch()
    waiter.send_fetch(max_wait_ms=15_000)
    assert acquired(waiter.receive_fetch()) == [(0, 0, 2)]
    assert ack_errors(holder.acknowledge({0: [(0, 0, ACCEPT)]})) == [ErrorCode.INVALID_RECORD_STATE]


def test_a_fetch_waits_for_a_session_to_close(stage: Stage) -> None:
    stage.produce(1)
    holder, waiter = stage.member("holder"), stage.member("waiter")
    holder.fetch()
    waiter.send_fetch(max_wait_ms=15_000)
    assert holder.acknowledge({}, epoch=-1).error_code == 0
    assert acquired(waiter.receive_fetch()) == [(0, 0, 2)]


def test_a_lost_connection_gives_the_records_back(stage: Stage) -> None:
    stage.produce(1)
    holder, waiter = stage.member("holder"), stage.member("waiter")
    holder.fetch()
    waiter.send_fetch(max_wait_ms=15_000)
    holder.wire.close()
    assert acquired(waiter.receive_fetch()) == [(0, 0, 2)]


def test_what_arrives_is_divided_among_those_who_wait(stage: Stage) -> None:
    members = [stage.member(f"m{i}") for i in range(4)]
    for member in members:
        member.fetch()
    for member in members:
        member.send_fetch(max_wait_ms=15_000, max_records=500)
    stage.wire.close()
    with Wire(stage.broker) as producer:
        produce(producer, stage.name, [b"x"] * 100)
    got = [acquired(member.receive_fetch()) for member in members]
    assert sorted(last - first + 1 for ranges in got for first, last, _ in ranges) == [25, 25, 25, 25]


def test_a_fetch_waits_until_there_are_enough_bytes(stage: Stage) -> None:
    member = stage.member()
    member.fetch()
    member.send_fetch(max_wait_ms=15_000, min_bytes=1_000)
    stage.produce(1)
    stage.produce(100)
    assert sum(last - first + 1 for first, last, _ in acquired(member.receive_fetch())) > 1


def test_entries_are_of_the_size_in_which_the_client_acknowledges(stage: Stage) -> None:
    stage.produce(5)
    assert acquired(stage.member("m1").fetch(max_records=4, batch_size=2)) == [(0, 1, 1), (2, 3, 1)]
    assert acquired(stage.member("m2").fetch(max_records=1, batch_size=1, mode=1)) == [(4, 4, 1)]


def test_a_renewal_keeps_the_lock(stage: Stage) -> None:
    stage.produce(1)
    holder = stage.member("holder")
    holder.fetch()
    renewed = holder.acknowledge({0: [(0, 0, RENEW)]}, renew=True)
    assert (ack_errors(renewed), renewed.acquisition_lock_timeout_ms) == ([0], 1000)
    riding = holder.fetch(acks={0: [(0, 0, RENEW)]}, renew=True, max_records=0, max_bytes=0, min_bytes=0)
    assert ack_errors(riding) == [0]
    assert ack_errors(holder.acknowledge({0: [(0, 0, ACCEPT)]})) == [0]


def test_a_renewal_must_not_ask_for_records(stage: Stage) -> None:
    stage.produce(1)
    holder = stage.member()
    holder.fetch()
    requested = holder.fetch(acks={0: [(0, 0, RENEW)]}, renew=True)
    assert requested.error_code == ErrorCode.INVALID_REQUEST
    assert ack_errors(holder.acknowledge({0: [(0, 0, RENEW)]})) == [ErrorCode.INVALID_REQUEST]


def test_a_partition_named_only_for_its_acknowledgements_can_be_forgotten(stage: Stage) -> None:
    stage.produce(2)
    member = stage.member()
    member.fetch(max_records=1)
    response = member.fetch(acks={0: [(0, 0, ACCEPT)]}, forgotten=(0,))
    assert (ack_errors(response), acquired(response)) == ([0], [])


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ((5, 9, ACCEPT), ErrorCode.INVALID_RECORD_STATE),
        ((0, 50, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((3, 2, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((0, 3, [1, 1]), ErrorCode.INVALID_REQUEST),
        ((0, 3, []), ErrorCode.INVALID_REQUEST),
        ((0, 3, [9]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_wrong_acknowledgements_are_refused_and_everyone_goes_on(
    stage: Stage, batch: tuple[int, int, list[int]], code: ErrorCode
) -> None:
    stage.produce(10)
    member, other = stage.member("m1"), stage.member("m2")
    member.fetch(max_records=5)
    other.fetch(max_records=5)
    assert ack_errors(member.acknowledge({0: [batch]})) == [code]
    assert ack_errors(member.acknowledge({0: [(0, 4, ACCEPT)]})) == [0]
    assert ack_errors(other.acknowledge({0: [(5, 9, ACCEPT)]})) == [0]


def test_session_epochs_are_enforced(stage: Stage) -> None:
    member = stage.member()
    assert member.fetch(epoch=3).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.acknowledge({}, epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(acks={0: [(0, 0, ACCEPT)]}).error_code == ErrorCode.INVALID_REQUEST
    member.fetch()
    assert member.fetch(epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge({}, epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch().error_code == 0


def test_what_does_not_exist_is_answered_with_its_partition(stage: Stage) -> None:
    member = stage.member()
    opened = member.fetch(partitions=(0, 7))
    codes = {data.partition_index: data.error_code for data in opened.responses[0].partitions}
    assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    stranger = ShareMember(stage.member().wire, GROUP, "stranger", b"\7" * 16)
    assert stranger.fetch().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_one_stuck_record_at_the_start_stops_the_window_at_its_limit_and_no_sooner(stage: Stage) -> None:
    stage.produce(2_100)
    stuck, busy = stage.member("stuck"), stage.member("busy")
    stuck.fetch(max_records=1)
    assert acquired(busy.fetch(max_records=5_000)) == [(1, 1_999, 1)]
    response = busy.fetch(acks={0: [(1, 1_999, ACCEPT)]}, max_records=5_000)
    assert acquired(response) == []
    assert ack_errors(stuck.acknowledge({0: [(0, 0, ACCEPT)]})) == [0]
    assert acquired(busy.fetch(max_records=5_000)) == [(2_000, 2_099, 1)]


def test_a_final_fetch_acknowledges_and_closes(stage: Stage) -> None:
    stage.produce(4)
    member, other = stage.member("m1"), stage.member("m2")
    member.fetch()
    final = member.fetch(epoch=-1, acks={0: [(0, 1, ACCEPT)]})
    assert (ack_errors(final), acquired(final)) == ([0], [])
    assert acquired(other.fetch()) == [(2, 3, 2)]
    assert member.fetch(epoch=2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
