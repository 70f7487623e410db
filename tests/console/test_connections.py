"""Connections that send nothing do not keep others out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from penstock.console import connections
from penstock.console.connections import Connection
from tests.console.conftest import until


async def application(scope: dict[str, object], receive: object, send: object) -> None:
    """Answers every request."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


@contextmanager
def listening() -> Iterator[int]:
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(application, http=Connection, ws="none", lifespan="off", log_level="error", limit_concurrency=20)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield bound.getsockname()[1]
    server.should_exit = True
    thread.join(30)


def half_a_request(port: int, path: str = "/") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=30)
    opened.sendall(f"GET {path} HTTP/1.1\r\nHost: ".encode())
    return opened


def is_closed(opened: socket.socket) -> bool:
    opened.settimeout(0.01)
    try:
        return opened.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_connections_without_a_request_give_way_to_those_that_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 20)
    monkeypatch.setattr(connections, "_ROOM", 5)
    with listening() as port:
        idle = [half_a_request(port) for _ in range(100)]

        def answer() -> int | None:
            try:
                with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                    return int(answer.status)
            except OSError:  # the server may still be busy with closing the others
                return None

        for _ in range(3):
            assert until(answer, "an answer") == 200
        assert sum(is_closed(each) for each in idle) > 50
        for each in idle:
            each.close()


def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_PATIENCE_SECONDS", 0.05)
    with listening() as port:
        silent = socket.create_connection(("127.0.0.1", port), timeout=30)
        half = half_a_request(port)
        body = socket.create_connection(("127.0.0.1", port), timeout=30)
        body.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        until(lambda: all(map(is_closed, (silent, half, body))) or None, "the end of the connections")
        for opened in (silent, half, body):
            opened.close()
