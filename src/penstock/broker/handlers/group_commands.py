"""Run a command of the group coordinator for a request: find the shard of the group, answer when it replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.requests import Answer, AnyRequest
from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects, Respond
from penstock.groups.shard import GroupShard
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator

R = TypeVar("R", bound=m.Message)
Command = Callable[[GroupShard, Respond[R], RequestContext], Effects]


class GroupCommands:
    def __init__(self, groups: GroupCoordinator, gate: Gate) -> None:
        self._groups = groups
        self._gate = gate

    def context_of(self, request: AnyRequest) -> RequestContext:
        return RequestContext(
            self._groups.time.now_ms(),
            request.api_version,
            request.client_id,
            request.client_host,
            self._gate.view(request),
        )

    def run(
        self,
        request: AnyRequest,
        group_id: str,
        command: Command[R],
        failed: Callable[[ErrorCode], R],
        shape: Callable[[R], R] | None = None,
    ) -> Answer:
        """Run a command on the shard of a group. The reply, now or later, goes through `shape`."""
        try:
            handle = self._groups.find(group_id)
        except KafkaError as error:
            return failed(error.code)
        pending = request.defer()

        def respond(response: R) -> None:
            pending.complete(response if shape is None else shape(response))

        handle.run(command(handle.shard, respond, self.context_of(request)))
        return pending
