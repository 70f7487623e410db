"""One connection to another broker: what breaks it, and what it says when it authenticates."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.broker.peer_connection import Call, Login, PeerAddress, PeerConnection, PeerFailed, connect
from penstock.broker.world import LoopWorld
from penstock.security.scram import ScramMechanism
from penstock.testing import AsyncBroker
from penstock.wire import messages as m

WAIT_SECONDS = 20.0


def new_connection(port: int) -> PeerConnection:
    world = LoopWorld(asyncio.get_running_loop())
    return PeerConnection(PeerAddress("127.0.0.1", port), "broker-1", world, lambda: None)


async def ask(connection: PeerConnection) -> object:
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    connection.send(Call(m.MetadataRequest(topics=[]), m.MetadataResponse, answered.set_result, 0, 99, 10.0))
    return await asyncio.wait_for(answered, WAIT_SECONDS)


async def test_it_asks_in_the_newest_version_that_both_speak() -> None:
    async with AsyncBroker() as broker:
        connection = new_connection(broker.port)
        await connection.open(None, None, connect)
        assert isinstance(await ask(connection), m.MetadataResponse)
        connection.close()


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
async def test_it_authenticates_with_scram(tmp_path: Path, mechanism: ScramMechanism) -> None:
    async with AsyncBroker(data=tmp_path, sasl=["SCRAM-SHA-256", "SCRAM-SHA-512"], users={"b": "pw"}) as broker:
        connection = new_connection(broker.port)
        await connection.open(None, Login(mechanism, "b", "pw"), connect)
        assert isinstance(await ask(connection), m.MetadataResponse)
        connection.close()


async def test_a_wrong_password_is_told_as_a_request_that_was_not_sent(tmp_path: Path) -> None:
    async with AsyncBroker(data=tmp_path, sasl=["SCRAM-SHA-256"], users={"b": "pw"}) as broker:
        connection = new_connection(broker.port)
        with pytest.raises(PeerFailed, match="refuses this broker") as caught:
            await connection.open(None, Login(ScramMechanism.SCRAM_SHA_256, "b", "wrong"), connect)
        assert caught.value.is_unsent
        assert connection.is_closed


async def test_a_listener_without_sasl_is_no_place_to_authenticate() -> None:
    async with AsyncBroker() as broker:
        connection = new_connection(broker.port)
        with pytest.raises(PeerFailed, match="does not take SCRAM-SHA-256 of other brokers: ILLEGAL_SASL_STATE"):
            await connection.open(None, Login(ScramMechanism.SCRAM_SHA_256, "b", "pw"), connect)


async def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Login(ScramMechanism.SCRAM_SHA_256, "b", "secret"))


async def test_a_session_that_will_end_says_when(tmp_path: Path) -> None:
    configs = {"connections.max.reauth.ms": 60_000}
    async with AsyncBroker(configs, data=tmp_path, sasl=["SCRAM-SHA-256"], users={"b": "pw"}) as broker:
        connection = new_connection(broker.port)
        await connection.open(None, Login(ScramMechanism.SCRAM_SHA_256, "b", "pw"), connect)
        assert connection.ends_at is not None
        connection.close()


async def test_what_is_no_broker_breaks_the_connection() -> None:
    async def chatter(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(chatter, "127.0.0.1", 0)
    async with server:
        connection = new_connection(server.sockets[0].getsockname()[1])
        with pytest.raises(PeerFailed):
            await asyncio.wait_for(connection.open(None, None, connect), WAIT_SECONDS)
        assert connection.is_closed


async def test_a_closed_connection_answers_later_requests_with_a_failure() -> None:
    async with AsyncBroker() as broker:
        connection = new_connection(broker.port)
        await connection.open(None, None, connect)
        connection.close()
        answer = await ask(connection)
        assert isinstance(answer, PeerFailed)
        assert answer.is_unsent


async def test_everybody_in_flight_hears_that_the_connection_is_lost() -> None:
    async with AsyncBroker() as broker:
        connection = new_connection(broker.port)
        await connection.open(None, None, connect)
        broker.drop("Metadata")
        answers = await asyncio.gather(*(ask(connection) for _ in range(3)))
        assert all(isinstance(answer, PeerFailed) for answer in answers)
        assert connection.is_closed
