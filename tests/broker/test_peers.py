"""Requests from one broker to others: real brokers at the other end, and some that are not there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from penstock.broker import peers as peers_module
from penstock.broker.peer_connection import PeerAddress, PeerFailed
from penstock.broker.peers import Lane, Peers
from penstock.broker.world import LoopWorld
from penstock.testing import AsyncBroker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

WAIT_SECONDS = 20.0
R = TypeVar("R", bound=m.Message)


class Stage:
    """A broker's requests to others, awaited."""

    def __init__(self) -> None:
        self.world = LoopWorld(asyncio.get_running_loop())
        self.addresses: dict[int, PeerAddress] = {}
        self.peers = Peers(1, self.world, self.addresses.get)

    def knows(self, node_id: int, broker: AsyncBroker) -> None:
        self.addresses[node_id] = PeerAddress("127.0.0.1", broker.port)

    def begin(
        self, node_id: int, message: m.Message, response: type[R], lane: Lane = Lane.RECORDS, seconds: float = 10
    ) -> asyncio.Future[R | PeerFailed]:
        answered: asyncio.Future[R | PeerFailed] = asyncio.get_running_loop().create_future()
        self.peers.send(node_id, lane, message, response, answered.set_result, timeout_seconds=seconds)
        return answered

    async def ask(self, node_id: int, message: m.Message, response: type[R], seconds: float = 10) -> R | PeerFailed:
        return await asyncio.wait_for(self.begin(node_id, message, response, seconds=seconds), WAIT_SECONDS)

    async def metadata(self, node_id: int) -> m.MetadataResponse:
        answer = await self.ask(node_id, m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert isinstance(answer, m.MetadataResponse), answer
        return answer

    async def refused(self, node_id: int) -> PeerFailed:
        answer = await self.ask(node_id, m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert isinstance(answer, PeerFailed)
        return answer


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.peers.stop()


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_a_broker_answers_another(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        answer = await stage.metadata(2)
        assert [broker.node_id for broker in answer.brokers] == [2]


async def test_each_broker_gets_its_own_requests(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as second, AsyncBroker({"node.id": 3}) as third:
        stage.knows(2, second)
        stage.knows(3, third)
        answers = await asyncio.gather(*(stage.metadata(node_id) for node_id in (2, 3, 2, 3)))
        assert [answer.controller_id for answer in answers] == [2, 3, 2, 3]


async def test_requests_are_pipelined_and_answered_in_order(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        answered: list[int] = []

        def note(index: int) -> Callable[[object], None]:
            return lambda _: answered.append(index)

        for index in range(500):
            stage.peers.send(2, Lane.RECORDS, m.MetadataRequest(topics=[]), m.MetadataResponse, note(index))
        await until(lambda: len(answered) == 500)
        assert answered == list(range(500))


async def test_an_answer_never_comes_before_the_request_is_sent(stage: Stage) -> None:
    """Callers may set up what the answer needs after they have sent the request."""
    for _ in range(2):  # unknown broker: the second time in the pause after the first
        answered = stage.begin(9, m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert not answered.done()
        assert isinstance(await answered, PeerFailed)


async def test_a_slow_request_holds_up_its_own_lane_only(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        await stage.metadata(2)
        other.delay("ListTransactions", 3)
        slow = stage.begin(2, m.ListTransactionsRequest(), m.ListTransactionsResponse, Lane.TRANSACTIONS)
        quick = stage.begin(2, m.MetadataRequest(topics=[]), m.MetadataResponse, Lane.MARKERS)
        assert isinstance(await asyncio.wait_for(quick, WAIT_SECONDS), m.MetadataResponse)
        assert not slow.done()


async def test_a_request_that_is_not_answered_in_time_fails_and_the_next_one_is_served(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        other.delay("ListTransactions", 60)
        answer = await stage.ask(2, m.ListTransactionsRequest(), m.ListTransactionsResponse, seconds=0.2)
        assert isinstance(answer, PeerFailed)
        assert not answer.is_unsent, "it may have been carried out"
        assert "did not answer ListTransactions within 0.2 s" in str(answer)
        assert (await stage.metadata(2)).controller_id == 2


async def test_a_broker_that_does_not_listen_fails_requests_that_were_never_sent(stage: Stage) -> None:
    stage.addresses[2] = PeerAddress("127.0.0.1", 1)
    assert (await stage.refused(2)).is_unsent
    assert (await stage.refused(2)).is_unsent


async def test_a_broker_that_comes_back_is_reached_again_at_its_new_address(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        await stage.metadata(2)
    failure = await stage.refused(2)
    assert isinstance(failure, PeerFailed)
    async with AsyncBroker({"node.id": 2}) as again:
        stage.knows(2, again)
        deadline = time.monotonic() + WAIT_SECONDS
        while isinstance(answer := await stage.ask(2, m.MetadataRequest(topics=[]), m.MetadataResponse), PeerFailed):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert answer.controller_id == 2


async def test_an_unknown_broker_is_said_to_be_missing(stage: Stage) -> None:
    assert "broker 7 is not there" in str(await stage.refused(7))


async def test_what_waits_for_a_connection_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "MAX_QUEUED", 3)
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        requested = [stage.begin(2, m.MetadataRequest(topics=[]), m.MetadataResponse) for _ in range(5)]
        answers = await asyncio.wait_for(asyncio.gather(*requested), WAIT_SECONDS)
        failed = [answer for answer in answers if isinstance(answer, PeerFailed)]
        assert len(failed) == 2
        assert all(each.is_unsent for each in failed)


async def test_what_is_in_flight_is_bounded_and_the_rest_follows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "MAX_IN_FLIGHT", 2)
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        requested = [stage.begin(2, m.MetadataRequest(topics=[]), m.MetadataResponse) for _ in range(50)]
        answers = await asyncio.wait_for(asyncio.gather(*requested), WAIT_SECONDS)
        assert all(isinstance(answer, m.MetadataResponse) for answer in answers)


async def test_a_version_that_the_other_broker_lacks_is_not_sent(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        stage.peers.send(2, Lane.RECORDS, m.MetadataRequest(), m.MetadataResponse, answered.set_result, at_least=10_000)
        answer = await asyncio.wait_for(answered, WAIT_SECONDS)
        assert isinstance(answer, PeerFailed)
        assert answer.is_unsent


async def test_errors_of_the_other_broker_are_answers(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        request = m.DescribeTransactionsRequest(transactional_ids=["unknown"])
        answer = await stage.ask(2, request, m.DescribeTransactionsResponse)
        assert isinstance(answer, m.DescribeTransactionsResponse)
        assert answer.transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_stopping_fails_what_is_under_way(stage: Stage) -> None:
    async with AsyncBroker({"node.id": 2}) as other:
        stage.knows(2, other)
        await stage.metadata(2)
        other.delay("ListTransactions", 60)
        under_way = stage.begin(2, m.ListTransactionsRequest(), m.ListTransactionsResponse)
        queued = stage.begin(2, m.MetadataRequest(topics=[]), m.MetadataResponse, Lane.MARKERS)
        stage.peers.stop()
        assert isinstance(await asyncio.wait_for(under_way, WAIT_SECONDS), PeerFailed)
        assert isinstance(await asyncio.wait_for(queued, WAIT_SECONDS), PeerFailed)
        assert (await stage.refused(2)).is_unsent
