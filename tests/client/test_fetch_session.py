"""Sessions as two sides see them: the requests of a real consumer to a scripted broker, and a real broker's table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, TopicPartition
from penstock.client.fetch_session import FetchSession
from penstock.client.metadata import Metadata
from penstock.client.subscription import PartitionState, Subscription
from penstock.records.builder import build_batch
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.client.scripted_broker import ScriptedCluster, fetch_response, scripted_cluster

QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "fetch.max.wait.ms": 50}


def partitions(*numbers: int) -> list[PartitionState]:
    subscription = Subscription()
    subscription.assign(TopicPartition("t", number) for number in numbers)
    for state in subscription.partitions.values():
        subscription.seek(state, 0)
    return list(subscription.partitions.values())


def ask(session: FetchSession, states: list[PartitionState], version: int = 17) -> m.FetchRequest:
    return session.fill(m.FetchRequest(), version, states, Metadata(), 1000)


def named(request: m.FetchRequest) -> list[tuple[int, int]]:
    return [(p.partition, p.fetch_offset) for topic in request.topics for p in topic.partitions]


def forgotten(request: m.FetchRequest) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def test_only_what_changed_is_named_once_a_session_is_open() -> None:
    session = FetchSession()
    states = partitions(0, 1, 2)
    first = ask(session, states)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert named(first) == [(0, 0), (1, 0), (2, 0)]
    session.answered(77)
    states[1].fetched_to = 10
    second = ask(session, states[:2])
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert named(second) == [(1, 10)]
    assert forgotten(second) == [2]
    session.answered(77)
    third = ask(session, states)
    assert third.session_epoch == 2
    assert named(third) == [(2, 0)]
    assert forgotten(third) == []


def test_a_broker_that_opens_no_session_is_always_asked_in_full() -> None:
    session = FetchSession()
    states = partitions(0, 1)
    for _ in range(3):
        request = ask(session, states)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == [(0, 0), (1, 0)]
        session.answered(0)
    assert not session.is_open


def test_a_broker_without_sessions_is_asked_without_one() -> None:
    request = ask(FetchSession(), partitions(0), version=6)
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert named(request) == [(0, 0)]


def test_a_session_that_is_out_of_step_is_ended_by_the_next_full_fetch() -> None:
    session = FetchSession()
    states = partitions(0, 1)
    ask(session, states)
    session.answered(77)
    ask(session, states)
    session.lost()
    request = ask(session, states)
    assert (request.session_id, request.session_epoch) == (77, 0)
    assert len(named(request)) == 2


def test_a_session_by_name_does_not_go_on_by_id() -> None:
    session = FetchSession()
    states = partitions(0)
    ask(session, states, version=12)
    session.answered(77)
    request = ask(session, states, version=13)
    assert (request.session_id, request.session_epoch) == (77, 0)


def test_a_partition_that_came_back_hears_its_high_watermark_again() -> None:
    session = FetchSession()
    subscription = Subscription()
    tp = TopicPartition("t", 0)
    for _ in range(2):
        subscription.assign([])
        subscription.assign([tp])
        subscription.seek(subscription.partitions[tp], 0)
        request = ask(session, [subscription.partitions[tp]])
        assert request.session_epoch == 0
        session.answered(77)


def test_epochs_start_over_at_one() -> None:
    session = FetchSession()
    states = partitions(0)
    ask(session, states)
    session.answered(77)
    session._epoch = 2**31 - 1
    session.answered(77)
    assert ask(session, states).session_epoch == 1


def script(cluster: ScriptedCluster, *answers: m.FetchResponse) -> list[m.FetchRequest]:
    """Answer fetches with these, the last one again and again."""
    waiting = list(answers)
    seen: list[m.FetchRequest] = []

    def answer(request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.FetchRequest)
        seen.append(request)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    cluster.brokers[0].answers[m.FetchRequest] = answer
    return seen


async def until(condition: Callable[[], object], consumer: Consumer[bytes, bytes]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await consumer.poll(10)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
async def test_when_the_broker_is_out_of_step_everything_is_asked_for_again(code: ErrorCode) -> None:
    quiet = [m.FetchResponse.PartitionData(partition_index=n, high_watermark=0, records=b"") for n in range(3)]
    async with scripted_cluster(partitions=3) as cluster:
        seen = script(
            cluster,
            fetch_response(*quiet, session_id=7),
            fetch_response(session_id=7),
            fetch_response(error_code=code),
            fetch_response(*quiet, session_id=8),
            fetch_response(session_id=8),
        )
        async with Consumer(QUICK, bootstrap_servers=cluster.bootstrap_servers) as consumer:
            all_three = [TopicPartition("t", number) for number in range(3)]
            consumer.assign(all_three)
            consumer.pause(*all_three)
            for tp in all_three:
                consumer.seek(tp, 0)
            consumer.resume(*all_three)
            await until(lambda: len(seen) >= 6, consumer)
        assert [(r.session_id, r.session_epoch) for r in seen[:6]] == [(0, 0), (7, 1), (7, 2), (7, 0), (8, 1), (8, 2)]
        assert [len(named(r)) for r in seen[:6]] == [3, 0, 0, 3, 0, 0]
        assert (8, -1) in [(request.session_id, request.session_epoch) for request in seen]


async def test_what_was_read_moves_the_offset_in_the_session() -> None:
    batch = bytes(build_batch([(0, None, b"x", ())] * 4, leader_epoch=5))
    data = m.FetchResponse.PartitionData(partition_index=0, high_watermark=4, records=batch)
    async with scripted_cluster() as cluster:
        seen = script(cluster, fetch_response(data, session_id=7), fetch_response(session_id=7))
        async with Consumer(QUICK, bootstrap_servers=cluster.bootstrap_servers) as consumer:
            consumer.assign([("t", 0)])
            consumer.seek(TopicPartition("t", 0), 0)
            assert len(await consumer.poll(5000)) == 4
            await until(lambda: len(seen) >= 3, consumer)
        assert [named(request) for request in seen[:3]] == [[(0, 0)], [(0, 4)], []]


async def test_a_consumer_of_many_partitions_reads_them_all_and_leaves_no_session(
    bootstrap: str, admin: Admin, producer: Producer, fresh: Callable[[str], str]
) -> None:
    topic = fresh("many")
    await admin.create_topic(topic, 20)
    async with Consumer(QUICK, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(20)])
        for turn in range(3):
            for number in range(20):
                await producer.send(topic, b"%d" % turn, partition=number)
            await producer.flush()
            found: list[tuple[int, bytes | None]] = []
            async with asyncio.timeout(20):
                while len(found) < 20:
                    found += [(record.partition, record.value) for record in await consumer.poll(500)]
            assert sorted(found) == [(number, b"%d" % turn) for number in range(20)]


async def test_close_ends_the_session_at_the_broker() -> None:
    with Broker() as broker:
        broker.create_topic("t", 2)
        server = broker._running()
        async with Consumer(
            QUICK, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([("t", 0), ("t", 1)])
            await until(lambda: consumer.current_lag(TopicPartition("t", 0)) is not None, consumer)
            assert len(server.parts.fetch_sessions) == 1
        assert len(server.parts.fetch_sessions) == 0
