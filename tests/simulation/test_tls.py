"""TLS in the simulated world: other bytes each time, as many of them, and the same run."""

from __future__ import annotations

import ssl

import pytest

from penstock.client.errors import TlsFailed
from penstock.client.producer import Producer
from penstock.security.protocols import SecurityProtocol
from penstock.simulation import Simulation
from penstock.simulation.network import Connection
from tests.simulation.certificates import pem
from tests.simulation.raw import access


async def _send(world: Simulation, context: ssl.SSLContext) -> int:
    await world.start()
    world.broker.parts.topics.create("t", 1, {})

    async def program() -> int:
        async with Producer(**access(world), ssl_context=context) as producer:
            return (await producer.send_and_wait("t", "value of a record", partition=0)).offset

    return await world.spawn("program", program).task


def _world(on_connection: list[Connection]) -> Simulation:
    world = Simulation(1, pem().configs("SSL"), SecurityProtocol.SSL)
    world.login = {"security_protocol": "ssl"}
    world.network.on_connection = on_connection.append
    return world


def test_what_is_sent_travels_encrypted_and_is_heard_before() -> None:
    pieces: list[bytes] = []
    carried: list[bytes] = []
    world = _world([])

    def connected(connection: Connection) -> None:
        connection.request_tap = pieces.append
        carry = connection.carry

        def carried_too(data: bytes, to_broker: bool, deliver: object) -> None:
            carried.append(data)
            carry(data, to_broker, deliver)  # type: ignore[arg-type]

        connection.carry = carried_too  # type: ignore[method-assign]

    world.network.on_connection = connected
    assert world.run(_send(world, pem().context())) == 0
    assert b"value of a record" in b"".join(pieces)
    assert b"value of a record" not in b"".join(carried)
    assert carried[0][0] == 0x16  # a handshake


def test_two_runs_are_the_same_but_for_the_bytes() -> None:
    runs = []
    for _ in range(2):
        world = _world([])
        world.run(_send(world, pem().context()))
        runs.append(world.trace)
    assert runs[0] == runs[1]


def test_a_client_that_does_not_know_the_authority_is_told_so() -> None:
    world = _world([])
    stranger = ssl.create_default_context(cadata=pem(("elsewhere",)).certificate)
    with pytest.raises(TlsFailed, match="certificate"):
        world.run(_send(world, stranger))
