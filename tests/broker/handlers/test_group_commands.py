"""A command of the group coordinator, run for a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from penstock.broker.gate import Gate
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.handlers.group_commands import GroupCommands
from penstock.broker.requests import Answer, Pending, Request
from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects, Respond
from penstock.groups.shard import GroupShard
from penstock.wire import messages as m
from penstock.wire.errors import CoordinatorLoadInProgress, ErrorCode
from penstock.wire.messages import Message

VERSION = 4


@dataclass
class Connection:
    """Collects the responses."""

    peer_host: str = "10.1.2.3"
    closed: bool = False
    sent: list[Message] = field(default_factory=list)

    def respond(self, request: object, response: Message) -> None:
        self.sent.append(response)


@dataclass
class Shard:
    """Holds the reply back until the test lets it go."""

    replies: list[Respond[m.HeartbeatResponse]] = field(default_factory=list)
    contexts: list[RequestContext] = field(default_factory=list)
    shard: object = None

    def run(self, effects: Effects) -> None:
        pass


class Clock:
    def now_ms(self) -> int:
        return 1234


class Groups:
    time = Clock()

    def __init__(self, shards: dict[str, Shard]) -> None:
        self._shards = shards

    def find(self, group_id: str) -> Shard:
        if group_id not in self._shards:
            raise CoordinatorLoadInProgress
        return self._shards[group_id]


def run(connection: Connection, shards: dict[str, Shard], group_id: str) -> Answer:
    commands = GroupCommands(cast(GroupCoordinator, Groups(shards)), Gate(None, lambda: 0.0))
    body = m.HeartbeatRequest(group_id=group_id)
    request = Request(cast(Any, connection), 12, VERSION, 1, "client", body, [])

    def command(shard: GroupShard, respond: Respond[m.HeartbeatResponse], context: RequestContext) -> Effects:
        held = shards[group_id]
        held.replies.append(respond)
        held.contexts.append(context)
        return Effects()

    def shape(response: m.HeartbeatResponse) -> m.HeartbeatResponse:
        return m.HeartbeatResponse(error_code=response.error_code, throttle_time_ms=7)

    return commands.run(request, group_id, command, lambda code: m.HeartbeatResponse(error_code=code), shape)


def test_the_reply_goes_out_when_it_comes_in_the_shape_of_the_request() -> None:
    connection, shard = Connection(), Shard()
    assert isinstance(run(connection, {"g": shard}, "g"), Pending)
    assert connection.sent == []
    shard.replies[0](m.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (response,) = connection.sent
    assert isinstance(response, m.HeartbeatResponse)
    assert (response.error_code, response.throttle_time_ms) == (ErrorCode.REBALANCE_IN_PROGRESS, 7)


def test_the_command_learns_who_asks_in_which_version_and_when() -> None:
    shard = Shard()
    run(Connection(), {"g": shard}, "g")
    (context,) = shard.contexts
    assert (context.now_ms, context.api_version) == (1234, VERSION)
    assert (context.client_id, context.client_host) == ("client", "/10.1.2.3")


def test_a_group_whose_coordinator_is_not_ready_fails_at_once_and_runs_nothing() -> None:
    shard = Shard()
    answer = run(Connection(), {"g": shard}, "another")
    assert isinstance(answer, m.HeartbeatResponse)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert shard.replies == []
