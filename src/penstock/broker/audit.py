"""The audit log: who changed what, from where, and how it ended.

Every request that changes topics, configs, rights, users, quotas or offsets of others is one line of the logger
`penstock.audit`, at level INFO, and at WARN if any of it was refused. A change that is answered later is one line when
it is answered. Names are shown, values are not: a config may be a password. The lines are written where an authorizer
decides what clients may do; elsewhere give the logger the level INFO (see `loggers`). What the authorizer denies is
logged by `gate`, whatever it was.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING

from penstock.broker.error_codes import finder
from penstock.broker.requests import Handler
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.requests import Answer, AnyRequest

log = logging.getLogger("penstock.audit")

_NAMES = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "resource_name",
    "resource_name_filter",
    "principal",
    "principal_filter",
    "entity_name",
    "feature",
)
_NAMES_MAX = 10
_CHARACTERS_MAX = 100


def begin() -> None:
    """Have the lines written, unless somebody chose another level."""
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def audited(key: ApiKey, handler: Handler) -> Handler:
    """The handler, with a line for each of its requests."""
    api = API_TABLE[key]
    find_errors = finder(api.response)

    def tell(request: AnyRequest, answer: Message | None) -> None:
        _write(api.name, request, "no answer" if answer is None else _outcome(find_errors(answer)))

    async def tell_later(request: AnyRequest, answer: Awaitable[Answer]) -> Answer:
        try:
            response = await answer
        except Exception as error:
            tell_of_failure(request, error)
            raise
        if isinstance(response, Message):
            tell(request, response)
        return response

    def tell_of_failure(request: AnyRequest, error: Exception) -> None:
        _write(api.name, request, f"failed: {type(error).__name__}")

    @wraps(handler)
    def handle(request: AnyRequest) -> Answer | Awaitable[Answer]:
        if not log.isEnabledFor(logging.WARNING):
            return handler(request)
        request.on_answered = partial(tell, request)
        try:
            answer = handler(request)
        except Exception as error:
            tell_of_failure(request, error)
            raise
        if isinstance(answer, Message):
            tell(request, answer)
        elif isinstance(answer, Awaitable):
            return tell_later(request, answer)
        return answer

    return handle


_DONE = "done"


def _outcome(errors: list[int] | None) -> str:
    if not errors:
        return _DONE
    counts = Counter(ErrorCode(code).name for code in errors)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())


def _write(api: str, request: AnyRequest, outcome: str) -> None:
    level = logging.INFO if outcome is _DONE else logging.WARNING
    if not log.isEnabledFor(level):
        return
    connection = request.connection
    log.log(
        level,
        "%s by %r from %s, client %r, of %s: %s",
        api,
        str(connection.principal)[:_CHARACTERS_MAX],
        connection.peer_host,
        request.client_id[:_CHARACTERS_MAX],
        _what(request.body),
        outcome,
    )


def _what(body: Message) -> str:
    names: list[str] = []
    for name in _named(body):
        if len(names) == _NAMES_MAX:
            return f"{', '.join(names)} and more"
        names.append(repr(name[:_CHARACTERS_MAX]))
    return ", ".join(names) or "nothing"


def _named(message: object) -> Iterator[str]:
    """The names in a message and in the structs within it, which are objects with slots."""
    fields: tuple[str, ...] = getattr(type(message), "__slots__", ())
    for field in fields:
        value: object = getattr(message, field)
        if isinstance(value, str) and field in _NAMES:
            yield value
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, str):
                    yield from _named(each)
                elif field.endswith("names"):
                    yield each
