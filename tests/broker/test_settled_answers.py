"""What a coordinator answers from memory waits until its log is durable, or is computed anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.broker.connection import Connection
from penstock.broker.requests import AnyRequest, Request
from penstock.broker.settled_answers import settled
from penstock.coordination.runtime import CoordinatorRuntime
from penstock.groups.shard import GroupShard
from penstock.wire import messages as m


class Runtime:
    """Settled when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Exception | None], None]] = []

    def when_settled(self, then: Callable[[Exception | None], None]) -> None:
        self.waiting.append(then)


class Wire:
    """A connection that notes the responses."""

    def __init__(self) -> None:
        self.sent: list[m.Message] = []

    def respond(self, request: AnyRequest, response: m.Message) -> None:
        self.sent.append(response)


class Stage:
    def __init__(self) -> None:
        self.runtime, self.wire = Runtime(), Wire()
        self.groups = [m.ListGroupsResponse.ListedGroup(group_id="before")]
        handler = settled(self._list, cast("CoordinatorRuntime[GroupShard]", self.runtime))
        handler(Request(cast(Connection, self.wire), 16, 5, 0, "", m.ListGroupsRequest(), []))

    def _list(self, request: AnyRequest) -> m.ListGroupsResponse:
        return m.ListGroupsResponse(groups=list(self.groups))

    def ended(self, failure: Exception | None) -> list[str]:
        """The groups of the answer."""
        self.groups[0] = m.ListGroupsResponse.ListedGroup(group_id="after")
        [then] = self.runtime.waiting
        then(failure)
        [response] = self.wire.sent
        assert isinstance(response, m.ListGroupsResponse)
        return [group.group_id for group in response.groups]


def test_the_answer_waits_and_is_what_memory_held_when_the_request_came() -> None:
    stage = Stage()
    assert stage.wire.sent == []
    assert stage.ended(None) == ["before"]


def test_an_answer_that_rested_on_what_is_lost_is_computed_anew() -> None:
    assert Stage().ended(RuntimeError("refused")) == ["after"]
