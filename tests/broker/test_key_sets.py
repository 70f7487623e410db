"""Keys of tokens: from files and addresses, off the event loop, anew at intervals and at a limited rate."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.key_sets import MAX_BYTES, KeySet, fetch_document
from penstock.broker.world import WaitsFor
from tests.broker.simulated_world import SimulatedWorld

KEY = {"kty": "EC", "crv": "P-256", "x": "", "y": ""}


def key_set(*key_ids: str) -> bytes:
    return json.dumps({"keys": [{**KEY, "kid": key_id} for key_id in key_ids]}).encode()


class Source:
    def __init__(self) -> None:
        self.world = Threads()
        self.documents = [key_set("a")]
        self.fetched = 0
        self.keys = KeySet("https://id.example/keys", 60_000, self.world, self.fetch)

    def fetch(self, url: str) -> bytes:
        self.fetched += 1
        document = self.documents[min(self.fetched, len(self.documents)) - 1]
        if not document:
            raise OSError("unreachable")
        return document


class Threads(SimulatedWorld):
    """A world whose threads may fail."""

    def in_thread(self, work: Callable[[], Any], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> Any:
        try:
            return Done(self, work())
        except Exception as error:
            return Done(self, None, error)


class Done:
    """A future whose callbacks are called when time passes."""

    def __init__(self, world: SimulatedWorld, result: Any, error: Exception | None = None) -> None:
        self._world, self._result, self._error = world, result, error

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._world.call_soon(callback, self)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> Any:
        return self._result


def test_keys_are_fetched_at_the_start_and_at_each_interval() -> None:
    source = Source()
    source.documents = [key_set("a"), key_set("a", "b")]
    source.keys.start()
    source.world.pass_ms(0)
    assert len(source.keys.keys) == 1
    source.world.pass_ms(60_000)
    assert source.fetched == 2
    assert len(source.keys.keys) == 2


def test_keys_stay_when_they_cannot_be_fetched_anew() -> None:
    source = Source()
    source.documents = [key_set("a"), b"", b"no json", key_set("a", "b")]
    source.keys.start()
    source.world.pass_ms(0)
    source.world.pass_ms(60_000)
    assert (source.fetched, len(source.keys.keys)) == (2, 1)
    source.world.pass_ms(10_000)
    assert (source.fetched, len(source.keys.keys)) == (3, 1)
    source.world.pass_ms(10_000)
    assert (source.fetched, len(source.keys.keys)) == (4, 2)


def test_a_missing_key_has_them_fetched_anew_but_not_all_the_time() -> None:
    source = Source()
    source.keys.start()
    source.world.pass_ms(0)
    done: list[int] = []
    assert not source.keys.refresh(lambda: done.append(1))
    source.world.pass_ms(10_000)
    assert source.keys.refresh(lambda: done.append(2))
    assert source.keys.refresh(lambda: done.append(3))
    source.world.pass_ms(0)
    assert done == [2, 3]
    assert source.fetched == 2
    assert not source.keys.refresh(lambda: done.append(4))


def test_an_interval_of_nothing_does_not_fetch_all_the_time() -> None:
    source = Source()
    source.keys = KeySet("https://id.example/keys", 0, source.world, source.fetch)
    source.keys.start()
    source.world.pass_ms(25_000)
    assert source.fetched == 3


def test_nothing_is_fetched_after_the_end() -> None:
    source = Source()
    source.keys.start()
    source.world.pass_ms(0)
    source.keys.stop()
    source.world.pass_ms(120_000)
    assert source.fetched == 1


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set("a"))
    assert fetch_document(file.as_uri()) == key_set("a")


def test_a_file_that_is_too_large_is_not_read_on(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        fetch_document(file.as_uri())


@pytest.mark.parametrize("url", ["ftp://id.example/keys", "/etc/passwd", "data:,x"])
def test_other_kinds_of_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="https://"):
        fetch_document(url)


@pytest.fixture
def web() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
            else:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(key_set("a"))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_address_is_fetched_and_redirections_are_not_followed(web: str) -> None:
    assert fetch_document(f"{web}/keys") == key_set("a")
    with pytest.raises(OSError, match="redirects elsewhere"):
        fetch_document(f"{web}/elsewhere")
