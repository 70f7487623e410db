"""Run the console as a process: the address, the server, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from penstock.console.app import DEFAULT_PIPELINES, create_app
from penstock.console.connections import MOST, Connection
from penstock.console.guard import allowed_hosts
from penstock.console.logins import Rules, wants_login

_GRACE_SECONDS = 3
_BACKLOG = 128


class ListenError(Exception):
    """The console cannot listen at the address; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the console is served: an address, the names that browsers may know it by, and its TLS."""

    listen: str
    names: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    descriptor: int | None = None
    """A socket of this machine that listens already, in place of `listen`."""

    @property
    def has_tls(self) -> bool:
        return self.tls_cert is not None


def parse_listen(listen: str, *, has_tls: bool = False, has_login: bool = False) -> tuple[str, int]:
    """Host and port of HOST:PORT. Beyond this machine the console wants TLS and a login."""
    host, _, port = listen.rpartition(":")
    bare = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise ListenError(f"{listen!r} is not an address to listen on; it must look like 127.0.0.1:8080")
    try:
        is_here = bare == "localhost" or ipaddress.ip_address(bare).is_loopback
    except ValueError:
        is_here = False
    if is_here or (has_tls and has_login):
        return bare, int(port)
    lines = [f"{listen} is reachable from other machines."]
    if not has_tls:
        lines.append("  Passwords and records would travel in plain HTTP; serve TLS:    --tls-cert FILE --tls-key FILE")
    if not has_login:
        lines.append("  Everybody could read, write and delete; have people log in:     --login")
    lines.append("  Or listen on 127.0.0.1 and reach it by:    ssh -L 8080:127.0.0.1:8080 THIS-MACHINE")
    raise ListenError("\n".join(lines))


def run(
    settings: Mapping[str, object],
    place: Place,
    *,
    rules: Rules | None = None,
    pipelines: str = DEFAULT_PIPELINES,
    client_config: str = "",
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM, or until the process that started this one is gone."""
    bound = _bind(place, has_login=wants_login(settings))
    host, port = bound.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    hosts = allowed_hosts(address, place.names)
    app = create_app(
        settings,
        hosts,
        is_secure=place.has_tls,
        rules=rules,
        pipelines=Path(pipelines),
        client_config=client_config,
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=Connection,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=64 << 10,
        limit_concurrency=MOST,
        proxy_headers=False,  # whoever can set them would choose the address that its logins are counted under
        ssl_certfile=place.tls_cert,
        ssl_keyfile=place.tls_key,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        bound.close()
        raise ListenError(f"TLS with {place.tls_cert} does not work: {error}") from None
    url = f"{'https' if place.has_tls else 'http'}://{address}/"
    asyncio.run(_serve(uvicorn.Server(config), app, bound, url, until_stdin_closes))


def _bind(place: Place, *, has_login: bool) -> socket.socket:
    if place.descriptor is not None:
        return socket.socket(fileno=place.descriptor)
    host, port = parse_listen(place.listen, has_tls=place.has_tls, has_login=has_login)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)  # before the line that says where
    except OSError as error:
        bound.close()
        raise ListenError(f"{place.listen} cannot be opened: {error.strerror}; choose another with --listen") from None
    return bound


async def _serve(server: uvicorn.Server, app: object, bound: socket.socket, url: str, until_stdin_closes: bool) -> None:
    print(f"Console: {url}", flush=True)
    watch = asyncio.create_task(_end_requests(server, app))
    if until_stdin_closes:
        os.set_blocking(sys.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _look_at_stdin, server)
    await server.serve(sockets=[bound])
    watch.cancel()


def _look_at_stdin(server: uvicorn.Server) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        server.should_exit = True
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


async def _end_requests(server: uvicorn.Server, app: object) -> None:
    """Live pages never end by themselves, and the server waits for its requests: end them when it should exit.

    Those that wait for a broker, which may be gone, are given a moment.
    """
    while not server.should_exit:  # noqa: ASYNC110 (uvicorn sets a flag, and has no event)
        await asyncio.sleep(0.2)
    web = getattr(getattr(app, "state", None), "web", None)
    if web is not None:
        web.is_closing.set()
        await asyncio.sleep(_GRACE_SECONDS / 3)
        for task in list(web.under_way):
            task.cancel()
