"""Run the console as a process: the address, the server, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import sys
from collections.abc import Mapping

import uvicorn

from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts

_GRACE_SECONDS = 3


class ListenError(Exception):
    """The console cannot listen at the address; the text says what to do."""


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Without TLS and login only this machine may reach the console."""
    host, _, port = listen.rpartition(":")
    bare = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise ListenError(f"{listen!r} is no address to listen on; it must look like 127.0.0.1:8080")
    try:
        is_here = bare == "localhost" or ipaddress.ip_address(bare).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise ListenError(
            f"{listen} is reachable from other machines, and the console would show them everything, in plain HTTP.\n"
            "  Listen on 127.0.0.1 and reach it by:    ssh -L 8080:127.0.0.1:8080 THIS-MACHINE"
        )
    return bare, int(port)


def run(settings: Mapping[str, object], listen: str, *, until_stdin_closes: bool = False) -> None:
    """Serve until SIGINT or SIGTERM, or until the process that started this one is gone."""
    host, port = parse_listen(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ListenError(f"{listen} cannot be listened on: {error.strerror}; choose another with --listen") from None
    shown = f"[{host}]" if ":" in host else host
    address = f"{shown}:{bound.getsockname()[1]}"
    app = create_app(settings, allowed_hosts(address))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=64 << 10,
        limit_concurrency=500,
    )
    server = uvicorn.Server(config)
    asyncio.run(_serve(server, app, bound, address, until_stdin_closes))


async def _serve(
    server: uvicorn.Server, app: object, bound: socket.socket, address: str, until_stdin_closes: bool
) -> None:
    print(f"Console: http://{address}/", flush=True)
    watch = asyncio.create_task(_end_streams(server, app))
    if until_stdin_closes:
        os.set_blocking(sys.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _look_at_stdin, server)
    await server.serve(sockets=[bound])
    watch.cancel()


def _look_at_stdin(server: uvicorn.Server) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        server.should_exit = True
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


async def _end_streams(server: uvicorn.Server, app: object) -> None:
    """Live pages never end by themselves, and the server waits for its requests: end them when it should exit."""
    while not server.should_exit:  # noqa: ASYNC110 (uvicorn sets a flag, and has no event)
        await asyncio.sleep(0.2)
    web = getattr(getattr(app, "state", None), "web", None)
    if web is not None:
        web.is_closing.set()
