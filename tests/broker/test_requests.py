"""A reply that comes later: it is sent once, and not to somebody who has gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.messages import Message


@dataclass
class Connection:
    peer_host: str = "10.1.2.3"
    closed: bool = False
    sent: list[tuple[object, Message]] = field(default_factory=list)

    def respond(self, request: object, response: Message) -> None:
        self.sent.append((request, response))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def request_(connection: Connection) -> Request[m.HeartbeatRequest]:
    return Request(cast(Any, connection), 12, 4, 1, "client", m.HeartbeatRequest(), [])


def test_the_first_reply_is_sent_and_every_later_one_dropped(
    connection: Connection, request_: Request[m.HeartbeatRequest]
) -> None:
    pending = request_.defer()
    assert pending.is_open
    first = m.HeartbeatResponse(error_code=1)
    pending.complete(first)
    pending.complete(m.HeartbeatResponse(error_code=2))
    assert connection.sent == [(request_, first)]
    assert not pending.is_open


def test_nobody_waits_on_a_connection_that_has_gone(
    connection: Connection, request_: Request[m.HeartbeatRequest]
) -> None:
    pending = request_.defer()
    connection.close()
    assert not pending.is_open


def test_a_request_can_be_answered_by_closing(connection: Connection, request_: Request[m.HeartbeatRequest]) -> None:
    pending = request_.defer()
    pending.close_connection()
    pending.complete(m.HeartbeatResponse())
    assert (connection.closed, connection.sent) == (True, [])


def test_the_address_of_a_client_is_written_as_kafka_writes_it(request_: Request[m.HeartbeatRequest]) -> None:
    assert request_.client_host == "/10.1.2.3"
