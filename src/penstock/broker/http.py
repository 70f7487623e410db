"""A small HTTP endpoint for monitoring: `GET /metrics`, `GET /health`, and JSON views that other modules register.

It is off unless `penstock.metrics.listen` names an address. It reads one request per connection, of bounded size and
within a bounded time, and never changes anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.broker.listeners import ListenError, parse_address

if TYPE_CHECKING:
    from penstock.broker.metrics import Metrics

log = logging.getLogger("penstock.broker")

_MAX_HEAD_BYTES = 16 << 10
_PATIENCE_SECONDS = 10.0
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}

View = Callable[[dict[str, str]], object]
"""Takes the query's parameters, returns what is sent as JSON; raises LookupError for what is not there."""


class MonitoringEndpoint:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._views: dict[str, View] = {"/health": lambda _: {"status": "ok"}}
        self._server: asyncio.Server | None = None
        self.port = 0

    def register(self, path: str, view: View) -> None:
        self._views[path] = view

    async def start(self, listen: str) -> None:
        address = parse_address(listen)
        try:
            self._server = await asyncio.start_server(
                self._serve, address.host or None, address.port, limit=_MAX_HEAD_BYTES
            )
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address} for metrics: {error.strerror}; choose another penstock.metrics.listen"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._answer(head)
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answer(self, head: bytes) -> tuple[int, str, bytes]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
        if len(words) != 3:
            return 400, "text/plain", b"not an HTTP request\n"
        if words[0] != "GET":
            return 405, "text/plain", b"only GET is answered here\n"
        url = urlsplit(words[1])
        path = unquote(url.path)
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", self._metrics.text().encode()
        view = self._views.get(path)
        if view is None:
            known = ", ".join(["/metrics", *sorted(self._views)])
            return 404, "text/plain", f"there is {known}\n".encode()
        try:
            return 200, "application/json", json.dumps(view(dict(parse_qsl(url.query)))).encode()
        except LookupError as error:
            return 404, "text/plain", f"{error}\n".encode()
        except Exception:
            log.exception("the view %r failed", path)
            return 500, "text/plain", b"the view failed; the broker's log says why\n"
