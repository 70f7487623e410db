"""Injected faults: errors, delays and dropped connections for the requests of one API.

A fault is placed between the dispatcher and the handler. Without faults, it costs the broker one look into an empty
dict per request.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker.requests import Answer, AnyRequest
from penstock.testing.error_responses import error_response
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Struct

if TYPE_CHECKING:
    from penstock.broker.dispatch import Dispatcher


class Fault(ABC):
    """A fault of the next `times` requests of an API (None: of all until it is healed)."""

    def __init__(self, api: ApiKey, times: int | None) -> None:
        self.api = api
        self.left = times
        self.hits = 0

    @property
    def active(self) -> bool:
        """Whether the fault still applies to requests."""
        return self.left is None or self.left > 0

    def hit(self) -> None:
        """Count a request that the fault applied to."""
        self.hits += 1
        if self.left is not None:
            self.left -= 1

    def heal(self) -> None:
        """End the fault."""
        self.left = 0

    @abstractmethod
    def strike(self, dispatcher: Dispatcher, request: AnyRequest) -> Answer | Awaitable[Answer] | None:
        """Answer in place of the handler; None lets the handler answer."""


class ErrorFault(Fault):
    def __init__(self, api: ApiKey, times: int | None, code: ErrorCode, whole: bool) -> None:
        super().__init__(api, times)
        self.code = code
        self.whole = whole

    def strike(self, dispatcher: Dispatcher, request: AnyRequest) -> Answer | None:
        if _expects_no_response(request):
            return None
        self.hit()
        return error_response(request.api_key, request.api_version, request.body, self.code, whole=self.whole)


class DropFault(Fault):
    def strike(self, dispatcher: Dispatcher, request: AnyRequest) -> Answer | None:
        self.hit()
        pending = request.defer()
        pending.close_connection()
        return pending


class DelayFault(Fault):
    def __init__(self, api: ApiKey, times: int | None, seconds: float) -> None:
        super().__init__(api, times)
        self.seconds = seconds

    def strike(self, dispatcher: Dispatcher, request: AnyRequest) -> Awaitable[Answer] | None:
        if _expects_no_response(request):
            return None
        self.hit()
        _keep_records(request.body)
        return self._later(dispatcher, request)

    async def _later(self, dispatcher: Dispatcher, request: AnyRequest) -> Answer:
        await asyncio.sleep(self.seconds)
        answer = dispatcher.find_handler(self.api)(request)
        return await answer if isinstance(answer, Awaitable) else answer


class Faults:
    """The faults of one broker, oldest first. Used in the thread of the broker's event loop."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)
        self._dispatcher.faults[fault.api] = self._strike

    def heal(self, api: ApiKey | None = None) -> None:
        for fault in self._faults:
            if api is None or fault.api is api:
                fault.heal()
        self._forget()

    def _strike(self, request: AnyRequest) -> Answer | Awaitable[Answer] | None:
        for fault in self._faults:
            if fault.api == request.api_key and fault.active:
                answer = fault.strike(self._dispatcher, request)
                if answer is not None:
                    self._forget()
                    return answer
        self._forget()
        return None

    def _forget(self) -> None:
        self._faults = [fault for fault in self._faults if fault.active]
        wanted = {fault.api for fault in self._faults}
        for api in [key for key in self._dispatcher.faults if key not in wanted]:
            del self._dispatcher.faults[api]


def api_key(name: str | ApiKey) -> ApiKey:
    """`"Produce"`, `"PRODUCE"` or the key itself."""
    if isinstance(name, ApiKey):
        return name
    for info in API_TABLE.values():
        if name in (info.name, info.key.name):
            return info.key
    raise ValueError(f"no Kafka API is called {name!r}; the names are those of the protocol, such as 'Produce'")


def _expects_no_response(request: AnyRequest) -> bool:
    return isinstance(request.body, m.ProduceRequest) and request.body.acks == 0


def _keep_records(item: Struct) -> None:
    """Copy what points into the connection's read buffer, which is used again as soon as the dispatcher returns."""
    for name in vars(type(item))["__slots__"]:
        value = getattr(item, name)
        if isinstance(value, memoryview):
            setattr(item, name, memoryview(bytearray(value)))
        elif isinstance(value, Struct):
            _keep_records(value)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Struct):
                    _keep_records(element)
