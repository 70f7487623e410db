"""Holds back what a coordinator answers from memory until its log is durable.

A coordinator's memory is ahead of its log. Where what was appended can be lost while the broker runs on, an answer from
memory may tell of something that never happened, such as an offset that was not committed after all. So the answer
waits; if the log does not become durable, it is computed anew, from what is left.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from penstock.broker.requests import Answer, AnyRequest, Handler, Pending
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.coordination.runtime import CoordinatorRuntime


def settled(handler: Handler, runtime: CoordinatorRuntime[Any]) -> Handler:
    """A handler that answers as `handler` does, which must change nothing; one that defers its answer sees to it
    itself that the runtime is settled by then."""

    @wraps(handler)
    def answer(request: AnyRequest) -> Answer:
        response = handler(request)
        if isinstance(response, Pending):
            return response
        assert isinstance(response, Message)
        pending = request.defer()

        def is_settled(failure: Exception | None) -> None:
            if failure is None:
                pending.complete(response)
            else:
                anew = handler(request)
                assert isinstance(anew, Message)
                pending.complete(anew)

        runtime.when_settled(is_settled)
        return pending

    return answer
