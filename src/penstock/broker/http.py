"""A small HTTP endpoint for monitoring: `GET /metrics`, `GET /health`, and JSON views that other modules register.

It is off unless `penstock.metrics.listen` names an address. It reads one request per connection, of bounded size and
within a bounded time, from a bounded number of connections, and never changes anything.

On a loopback address it serves everybody on this machine, by addresses and `localhost` only: a web page elsewhere could
otherwise have its own name resolved to this machine, and read along in the visitor's browser (DNS rebinding). Beyond
this machine it is served over TLS, to those who log in (`Visitors`) and may see what they request: `/metrics` and views
of the broker need DESCRIBE on the cluster, a view of a group DESCRIBE on that group. `/health`, `/livez` (the process
answers) and `/readyz` (it can serve clients) are for everybody.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.listeners import ListenError, parse_address
from penstock.security.acls import CLUSTER_NAME
from penstock.wire.acls import AclResource

if TYPE_CHECKING:
    from penstock.broker.metrics import Metrics
    from penstock.security.principals import Principal

log = logging.getLogger("penstock.broker")

_MAX_HEAD_BYTES = 16 << 10
MAX_CONNECTIONS = 100
_PATIENCE_SECONDS = 10.0
_HEALTH = "/health"
_ALIVE = "/livez"
_READY = "/readyz"
_FOR_EVERYBODY = frozenset({_HEALTH, _ALIVE, _READY})
_METRICS = "/metrics"
_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_LOG_IN = 'WWW-Authenticate: Basic realm="Penstock", charset="UTF-8"\r\n'

View = Callable[[dict[str, str]], object]
"""Takes the query's parameters, returns what is sent as JSON, or something to wait for that makes its text; raises
LookupError for what is not there."""


class Visitors(Protocol):
    """Decides who may look."""

    @property
    def context(self) -> ssl.SSLContext: ...

    async def authenticate(self, authorization: str, host: str) -> Principal | None:
        """Who sends this Authorization header; None for nobody that we know."""
        ...

    def may_describe(self, principal: Principal, host: str, resource: AclResource, name: str) -> bool: ...


class Request(NamedTuple):
    path: str
    query: dict[str, str]
    host: str
    authorization: str
    accept: str


class Answer(NamedTuple):
    status: int
    kind: str
    body: list[bytes]


class MonitoringEndpoint:
    def __init__(
        self, metrics: Metrics, not_ready: Callable[[], list[str]], on_first_look: Callable[[], None] | None = None
    ) -> None:
        """`not_ready` tells what stands in the way of serving clients; nothing, mostly. `on_first_look` is called
        before a view is shown for the first time, which neither the broker's health nor its metrics is."""
        self._not_ready = not_ready
        self._on_first_look = on_first_look
        self._metrics = metrics
        self._views: dict[str, View] = {path: lambda _: {"status": "ok"} for path in (_HEALTH, _ALIVE)}
        self._about_groups: set[str] = set()
        self._server: asyncio.Server | None = None
        self._visitors: Visitors | None = None
        self._failures = BoundedLog(log, time.monotonic, "requests to the monitoring endpoint failed")
        self._open = 0
        self.port = 0

    def register(self, path: str, view: View, *, about_groups: bool = False) -> None:
        """Serve a view. One about groups shows the group that the query's `group` names, or all if it names none."""
        self._views[path] = view
        if about_groups:
            self._about_groups.add(path)

    async def start(self, listen: str, visitors: Visitors | None = None) -> None:
        """Serve everybody who can reach the address, or visitors only, over TLS."""
        address = parse_address(listen)
        self._visitors = visitors
        try:
            self._server = await asyncio.start_server(
                self._serve,
                address.host or None,
                address.port,
                limit=_MAX_HEAD_BYTES,
                ssl=None if visitors is None else visitors.context,
                ssl_handshake_timeout=None if visitors is None else _PATIENCE_SECONDS,
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
        if self._open >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                host = str((writer.get_extra_info("peername") or ("",))[0])
                status, kind, body = await self._answer(head, host)
                head = (
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
                    f"{_LOG_IN if status == 401 else ''}"
                    f"Content-Length: {sum(map(len, body))}\r\nConnection: close\r\n\r\n"
                ).encode()
                writer.writelines([head, *body])
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            self._failures.warning("a request to the monitoring endpoint failed: %r", error)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes, host: str) -> Answer:
        request = parse(head)
        if isinstance(request, Answer):
            return request
        if self._visitors is None and not is_of_this_machine(request.host):
            return _text(421, "here only requests to localhost or to an address are answered, not to another name")
        if self._visitors is not None and request.path not in _FOR_EVERYBODY:
            principal = await self._visitors.authenticate(request.authorization, host)
            if principal is None:
                return _text(401, "log in with a user of the broker and the user's password")
            resource, name = self._described(request)
            if not self._visitors.may_describe(principal, host, resource, name):
                return _text(403, f"you need DESCRIBE on {resource.name} {name}")
        return await self._show(request)

    def _described(self, request: Request) -> tuple[AclResource, str]:
        """What a request looks at."""
        if request.path in self._about_groups and "group" in request.query:
            return AclResource.GROUP, request.query["group"]
        return AclResource.CLUSTER, CLUSTER_NAME

    async def _show(self, request: Request) -> Answer:
        if self._on_first_look is not None and request.path not in _FOR_EVERYBODY and request.path != _METRICS:
            first_look, self._on_first_look = self._on_first_look, None
            first_look()
        view = self._views.get(request.path)
        if request.path == _READY:
            reasons = self._not_ready()
            body = json.dumps({"status": "not ready" if reasons else "ok", "reasons": reasons})
            return Answer(503 if reasons else 200, "application/json", [body.encode()])
        if view is None and request.path != _METRICS:
            known = ", ".join([_METRICS, *sorted([*self._views, _READY])])
            return _text(404, f"there is {known}")
        try:
            if view is None:
                openmetrics = prefers_openmetrics(request.accept)
                kind = _OPENMETRICS if openmetrics else "text/plain; version=0.0.4"
                return Answer(200, kind, await self._metrics.scrape(openmetrics=openmetrics))
            shown = view(request.query)
            pieces = await shown if isinstance(shown, Awaitable) else [json.dumps(shown).encode()]
            return Answer(200, "application/json", pieces)
        except LookupError as error:
            return _text(404, str(error))
        except Exception:
            log.exception("the view %r failed", request.path)
            return _text(500, "the view failed; the broker's log says why")


def _text(status: int, line: str) -> Answer:
    return Answer(status, "text/plain", [f"{line}\n".encode()])


def parse(head: bytes) -> Request | Answer:
    """The request that a head stands for, or the answer that refuses it."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split()
    if len(words) != 3:
        return _text(400, "not an HTTP request")
    if words[0] != "GET":
        return _text(405, "only GET is answered here")
    try:
        url = urlsplit(words[1])
    except ValueError:
        return _text(400, "not a path")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(
        unquote(url.path),
        dict(parse_qsl(url.query)),
        headers.get("host", ""),
        headers.get("authorization", ""),
        headers.get("accept", ""),
    )


def is_of_this_machine(host: str) -> bool:
    """Whether a Host header names no name but `localhost`. Whoever sends none is no browser."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if not name or name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def prefers_openmetrics(accept: str) -> bool:
    """Whether an Accept header names OpenMetrics, and prefers no other text to it."""
    qualities = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        values = dict(part.partition("=")[::2] for part in parameters)
        if kind in qualities and values.get("version", "1.0.0") in ("0.0.1", "0.0.4", "1.0.0"):
            try:
                qualities[kind] = max(qualities[kind], float(values.get("q", "1")))
            except ValueError:
                continue
    openmetrics, text = qualities.values()
    return openmetrics > 0 and openmetrics >= text
