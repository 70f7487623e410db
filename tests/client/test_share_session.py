"""One member's conversation with one broker. The broker is scripted, so that it can lose sessions and refuse locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import pytest

from penstock.client.cluster import Cluster
from penstock.client.config import ShareConsumerConfig
from penstock.client.errors import Disconnected
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_session import ShareSession
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    GroupAuthorizationFailed,
    InvalidRecordState,
    KafkaError,
    ShareSessionNotFound,
)
from tests.client.scripted_broker import TOPIC_ID, scripted_cluster

P0, P1 = (TOPIC_ID, 0), (TOPIC_ID, 1)
ACCEPT, RENEW = int(AcknowledgeType.ACCEPT), int(AcknowledgeType.RENEW)
Batches: TypeAlias = list[tuple[int, int, list[int]]]


class Leader:
    """The broker's side: agrees to everything unless told otherwise, and keeps what it was asked."""

    def __init__(self) -> None:
        self.session: ShareSession
        self.asked: list[m.ShareFetchRequest | m.ShareAcknowledgeRequest] = []
        self.error = 0  # of the next answer as a whole
        self.refused: dict[int, int] = {}  # acknowledgements, by partition
        self.acquired: dict[int, tuple[int, int]] = {}  # what a fetch brings, by partition
        self.silent_about: set[int] = set()
        self.reports: list[tuple[int, list[int], int]] = []  # partition, offsets, error code

    def report(self, partition: tuple[bytes, int], acks: object, error: KafkaError | None) -> None:
        offsets: Callable[[], set[int]] = acks.offsets  # type: ignore[attr-defined]
        self.reports.append((partition[1], sorted(offsets()), 0 if error is None else int(error.code)))

    def fetch(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.ShareFetchRequest)
        self.asked.append(request)
        response = m.ShareFetchResponse
        named = {p.partition_index for topic in request.topics for p in topic.partitions}
        partitions = [
            response.PartitionData(
                partition_index=number,
                acknowledge_error_code=self.refused.get(number, 0),
                acquired_records=[
                    response.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1)
                    for first, last in ([self.acquired[number]] if number in self.acquired else [])
                ],
                records=b"",
            )
            for number in sorted(named | set(self.acquired))
            if number not in self.silent_about
        ]
        topics = [response.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
        return response(
            error_code=self._next_error(), acquisition_lock_timeout_ms=1000, responses=topics if partitions else []
        )

    def acknowledge(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.ShareAcknowledgeRequest)
        self.asked.append(request)
        response = m.ShareAcknowledgeResponse
        partitions = [
            response.PartitionData(partition_index=p.partition_index, error_code=self.refused.get(p.partition_index, 0))
            for topic in request.topics
            for p in topic.partitions
            if p.partition_index not in self.silent_about
        ]
        topics = [response.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
        return response(error_code=self._next_error(), responses=topics if partitions else [])

    def _next_error(self) -> int:
        error, self.error = self.error, 0
        return error

    @property
    def epochs(self) -> list[int]:
        return [request.share_session_epoch for request in self.asked]

    def named(self, index: int = -1) -> dict[int, Batches]:
        """The partitions that a request named, with the acknowledgements in it."""
        return {
            p.partition_index: [(b.first_offset, b.last_offset, b.acknowledge_types) for b in p.acknowledgement_batches]
            for topic in self.asked[index].topics
            for p in topic.partitions
        }

    async def deliver(self, first: int, last: int, *, until: float | None = None) -> None:
        """Have offsets of partition 0 locked and delivered, to be decided about."""
        await self.session.fetch({P0}, 500, 0)
        acks = self.session.acknowledgements(P0)
        acks.await_decision(first, last)
        if until is not None:
            acks.locked(first, last, until)


@pytest.fixture
async def leader() -> AsyncIterator[Leader]:
    it = Leader()
    async with scripted_cluster(partitions=2) as scripted:
        broker = scripted.brokers[0]
        broker.answers[m.ShareFetchRequest] = it.fetch
        broker.answers[m.ShareAcknowledgeRequest] = it.acknowledge
        config = ShareConsumerConfig(bootstrap_servers=scripted.bootstrap_servers, group_id="g")
        async with Cluster(config) as cluster:
            it.session = ShareSession(cluster, config, 1, "me", it.report)
            yield it


def now() -> float:
    return asyncio.get_running_loop().time()


# Fetching


async def test_epochs_rise_and_only_what_changed_is_named(leader: Leader) -> None:
    await leader.session.fetch({P0, P1}, 500, 0)
    assert set(leader.named()) == {0, 1}
    await leader.session.fetch({P0, P1}, 500, 0)
    assert leader.named() == {}
    await leader.session.fetch({P0}, 500, 0)
    assert leader.named() == {}
    last = leader.asked[-1]
    assert isinstance(last, m.ShareFetchRequest)
    assert [(gone.topic_id, gone.partitions) for gone in last.forgotten_topics_data] == [(TOPIC_ID, [1])]
    await leader.session.fetch({P0, P1}, 500, 0)
    assert set(leader.named()) == {1}
    assert leader.epochs == [0, 1, 2, 3]


async def test_after_the_last_epoch_comes_one_again(leader: Leader) -> None:
    await leader.session.fetch({P0}, 500, 0)
    leader.session._epoch = 2**31 - 1
    await leader.session.fetch({P0}, 500, 0)
    await leader.session.fetch({P0}, 500, 0)
    assert leader.epochs == [0, 2**31 - 1, 1]


async def test_what_was_acquired_comes_with_the_time_of_its_locks(leader: Leader) -> None:
    leader.acquired[0] = (5, 9)
    before = now()
    (found,) = await leader.session.fetch({P0}, 500, 0)
    assert (found.partition, found.acquired, found.locked_runs()) == (P0, [(5, 9, 1)], [(5, 9)])
    assert before <= found.locked_at <= now()
    assert leader.session.lock_timeout_ms == 1000


# Acknowledging


async def test_decisions_travel_with_the_next_fetch_and_what_is_undecided_stays(leader: Leader) -> None:
    await leader.deliver(0, 4)
    acks = leader.session.acknowledgements(P0)
    for offset in (0, 1, 3):
        acks.add(offset, ACCEPT)
    assert leader.session.has_acknowledgements
    await leader.session.fetch({P0}, 500, 0)
    assert leader.named() == {0: [(0, 1, [ACCEPT]), (3, 3, [ACCEPT])]}
    assert leader.reports == [(0, [0, 1, 3], 0)]
    assert not leader.session.has_acknowledgements
    assert dict(leader.session.held()) == {P0: [(2, 2), (4, 4)]}


async def test_decisions_about_a_partition_that_is_no_longer_ours_are_sent_and_it_is_forgotten(leader: Leader) -> None:
    await leader.deliver(0, 0)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    await leader.session.fetch({P1}, 500, 0)
    assert leader.named() == {0: [(0, 0, [ACCEPT])], 1: []}
    last = leader.asked[-1]
    assert isinstance(last, m.ShareFetchRequest)
    assert [gone.partitions for gone in last.forgotten_topics_data] == [[0]]


async def test_they_are_sent_on_their_own_when_asked_for_and_never_without_need(leader: Leader) -> None:
    await leader.session.acknowledge()
    await leader.deliver(0, 1)
    await leader.session.acknowledge()
    assert len(leader.asked) == 1
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    leader.refused[0] = ErrorCode.INVALID_RECORD_STATE
    await leader.session.acknowledge()
    assert isinstance(leader.asked[-1], m.ShareAcknowledgeRequest)
    assert leader.epochs == [0, 1]
    assert leader.reports == [(0, [0], ErrorCode.INVALID_RECORD_STATE)]


@pytest.mark.parametrize("way", ["fetch", "acknowledge"])
async def test_decisions_that_the_broker_does_not_mention_have_failed(leader: Leader, way: str) -> None:
    await leader.deliver(0, 0)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    leader.silent_about.add(0)
    await (leader.session.fetch({P0}, 500, 0) if way == "fetch" else leader.session.acknowledge())
    assert leader.reports == [(0, [0], ErrorCode.INVALID_RECORD_STATE)]


async def test_a_decision_that_comes_after_its_lock_ran_out_is_not_sent_beside_the_others(leader: Leader) -> None:
    await leader.deliver(0, 2, until=now() - 1)
    await leader.deliver(3, 4, until=now() + 60)
    for offset in range(5):
        leader.session.acknowledgements(P0).add(offset, ACCEPT)
    await leader.session.acknowledge()
    assert leader.named() == {0: [(3, 4, [ACCEPT])]}
    assert leader.reports == [(0, [0, 1, 2], ErrorCode.INVALID_RECORD_STATE), (0, [3, 4], 0)]


async def test_nothing_is_sent_if_all_came_too_late(leader: Leader) -> None:
    await leader.deliver(0, 2, until=now() - 1)
    leader.session.acknowledgements(P0).add(1, ACCEPT)
    await leader.session.acknowledge()
    assert len(leader.asked) == 1
    assert leader.reports == [(0, [1], ErrorCode.INVALID_RECORD_STATE)]


# Renewing


async def test_a_renewal_names_what_is_chosen_and_reports_nothing(leader: Leader) -> None:
    await leader.deliver(0, 4, until=now() + 0.05)
    leader.refused[1] = ErrorCode.INVALID_RECORD_STATE
    outcome = await leader.session.renew(lambda: {P0: [(0, 1), (3, 3)], P1: [(7, 7)]})
    assert outcome[P0] is None
    assert isinstance(outcome[P1], InvalidRecordState)
    request = leader.asked[-1]
    assert isinstance(request, m.ShareAcknowledgeRequest)
    assert request.is_renew_ack
    assert leader.named() == {0: [(0, 1, [RENEW]), (3, 3, [RENEW])], 1: [(7, 7, [RENEW])]}
    assert leader.reports == []
    await asyncio.sleep(0.06)  # the first lock time is over; that of those renewed is not
    assert dict(leader.session.held()) == {P0: [(0, 1), (3, 3)]}


async def test_a_refused_renewal_gives_no_lock_time(leader: Leader) -> None:
    await leader.deliver(0, 1, until=now() - 1)
    leader.refused[0] = ErrorCode.INVALID_RECORD_STATE
    assert isinstance((await leader.session.renew(lambda: {P0: [(0, 1)]}))[P0], InvalidRecordState)
    leader.refused.clear()
    leader.silent_about.add(0)
    assert isinstance((await leader.session.renew(lambda: {P0: [(0, 1)]}))[P0], InvalidRecordState)
    assert dict(leader.session.held()) == {}


async def test_nothing_to_renew_asks_nobody_and_a_lost_session_has_nothing_to_renew(leader: Leader) -> None:
    assert await leader.session.renew(dict) == {}
    with pytest.raises(Disconnected, match="session was lost"):
        await leader.session.renew(lambda: {P0: [(0, 0)]})
    assert leader.asked == []


# Losing the session


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
async def test_a_session_that_the_broker_lost_is_opened_anew_with_everything_in_it(
    leader: Leader, code: ErrorCode
) -> None:
    await leader.deliver(0, 1)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    leader.error = code
    with pytest.raises(KafkaError) as raised:
        await leader.session.fetch({P0}, 500, 0)
    assert raised.value.code == code
    assert leader.reports == [(0, [0], code)]
    leader.session.acknowledgements(P0).add(1, ACCEPT)
    await leader.session.fetch({P0, P1}, 500, 0)
    assert leader.epochs == [0, 1, 0]
    assert leader.named() == {0: [], 1: []}  # a session must not open with acknowledgements
    assert leader.reports[1:] == [(0, [1], ErrorCode.NETWORK_EXCEPTION)]


async def test_a_refusal_that_is_not_about_the_session_leaves_it_open(leader: Leader) -> None:
    await leader.deliver(0, 0)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    leader.error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(GroupAuthorizationFailed):
        await leader.session.acknowledge()
    assert leader.reports == [(0, [0], ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    await leader.session.fetch({P0}, 500, 0)
    assert leader.epochs == [0, 1, 2]


async def test_a_lost_session_during_a_renewal_is_not_a_decision(leader: Leader) -> None:
    await leader.deliver(0, 0)
    leader.error = ErrorCode.SHARE_SESSION_NOT_FOUND
    with pytest.raises(ShareSessionNotFound):
        await leader.session.renew(lambda: {P0: [(0, 0)]})
    assert leader.reports == []


async def test_closing_sends_what_is_decided_with_the_last_epoch(leader: Leader) -> None:
    await leader.session.acknowledge(close=True)
    assert leader.asked == []
    await leader.deliver(0, 1)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    await leader.session.acknowledge(close=True)
    assert leader.epochs == [0, -1]
    assert leader.named() == {0: [(0, 0, [ACCEPT])]}
    assert leader.reports == [(0, [0], 0)]
    await leader.session.fetch({P0}, 500, 0)
    assert leader.epochs == [0, -1, 0]
    assert leader.named() == {0: []}


async def test_requests_wait_for_each_other(leader: Leader) -> None:
    await leader.deliver(0, 1)
    leader.session.acknowledgements(P0).add(0, ACCEPT)
    async with asyncio.timeout(20):
        await asyncio.gather(
            leader.session.fetch({P0}, 500, 0),
            leader.session.renew(lambda: {P0: [(1, 1)]}),
            leader.session.fetch({P0, P1}, 500, 0),
            leader.session.acknowledge(close=True),
        )
    assert leader.epochs == [0, 1, 2, 3, -1]
