"""The monitoring endpoint, asked by a client of nothing but a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from penstock.broker import http
from penstock.broker.http import MonitoringEndpoint, prefers_openmetrics
from penstock.broker.listeners import ListenError

WAIT_SECONDS = 30


class FixedMetrics:
    """Metrics that are always the same."""

    async def scrape(self, *, openmetrics: bool = False) -> list[bytes]:
        return [b"answer 42\n"]


@pytest.fixture
async def endpoint() -> AsyncIterator[MonitoringEndpoint]:
    running = MonitoringEndpoint(FixedMetrics(), list)  # type: ignore[arg-type]
    await running.start("127.0.0.1:0")
    yield running
    await running.stop()


async def exchange(endpoint: MonitoringEndpoint, request: bytes) -> bytes:
    """Send a request; everything that comes until the endpoint closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    writer.close()
    return answer


async def get(endpoint: MonitoringEndpoint, path: str) -> tuple[int, bytes]:
    head, _, body = (await exchange(endpoint, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())).partition(
        b"\r\n\r\n"
    )
    assert f"Content-Length: {len(body)}".encode() in head
    return int(head.split()[1]), body


async def test_metrics_are_text(endpoint: MonitoringEndpoint) -> None:
    assert await get(endpoint, "/metrics") == (200, b"answer 42\n")


async def test_health_is_json(endpoint: MonitoringEndpoint) -> None:
    status, body = await get(endpoint, "/health")
    assert status == 200
    assert json.loads(body) == {"status": "ok"}


async def test_what_is_built_for_views_is_built_when_somebody_looks_at_one() -> None:
    looks: list[str] = []
    endpoint = MonitoringEndpoint(FixedMetrics(), list, lambda: looks.append("look"))  # type: ignore[arg-type]
    endpoint.register("/view", lambda _: len(looks))
    await endpoint.start("127.0.0.1:0")
    for path in ("/health", "/livez", "/readyz", "/metrics"):
        assert (await get(endpoint, path))[0] == 200
    assert looks == []
    assert [await get(endpoint, path) for path in ("/view", "/metrics", "/view")][::2] == [(200, b"1")] * 2
    await endpoint.stop()


async def test_a_broker_that_answers_is_alive_and_ready_once_nothing_stands_in_the_way() -> None:
    reasons = ["__consumer_offsets is being loaded"]
    endpoint = MonitoringEndpoint(FixedMetrics(), lambda: reasons)  # type: ignore[arg-type]
    await endpoint.start("127.0.0.1:0")
    assert (await get(endpoint, "/livez"))[0] == 200
    status, body = await get(endpoint, "/readyz")
    assert (status, json.loads(body)) == (503, {"status": "not ready", "reasons": reasons})
    reasons = []
    status, body = await get(endpoint, "/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ok", "reasons": []})
    await endpoint.stop()


async def test_a_view_gets_the_parameters_of_the_query(endpoint: MonitoringEndpoint) -> None:
    endpoint.register("/echo", lambda query: query)
    status, body = await get(endpoint, "/echo?group=a%20b&empty=")
    assert status == 200
    assert json.loads(body) == {"group": "a b"}


async def test_what_is_not_there_is_answered_with_what_there_is(endpoint: MonitoringEndpoint) -> None:
    endpoint.register("/echo", lambda query: query)
    assert await get(endpoint, "/nothing") == (404, b"there is /metrics, /echo, /health, /livez, /readyz\n")


async def test_a_view_may_say_that_there_is_no_such_thing(endpoint: MonitoringEndpoint) -> None:
    def missing(_: dict[str, str]) -> object:
        raise LookupError("there is no group g")

    endpoint.register("/group", missing)
    assert await get(endpoint, "/group") == (404, b"there is no group g\n")


async def test_a_view_that_fails_is_an_error_of_the_server_and_the_next_request_is_served(
    endpoint: MonitoringEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: dict[str, str]) -> object:
        raise ValueError("a fault of this view alone")

    endpoint.register("/bad", fail)
    status, _ = await get(endpoint, "/bad")
    assert status == 500
    assert "a fault of this view alone" in caplog.text
    assert (await get(endpoint, "/health"))[0] == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"GET /metrics", b"400"),
        (b"GET //[ HTTP/1.1", b"400"),
        (b"GET http://[::/metrics HTTP/1.1", b"400"),
        (b"", b"400"),
    ],
)
async def test_anything_but_a_get_is_refused(endpoint: MonitoringEndpoint, request_line: bytes, status: bytes) -> None:
    answer = await exchange(endpoint, request_line + b"\r\n\r\n")
    assert answer.split()[1] == status


async def test_a_failure_that_nobody_thought_of_is_one_line_of_the_log(
    endpoint: MonitoringEndpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: bytes) -> object:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(http, "parse", fail)
    for _ in range(100):
        assert await exchange(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
    assert 1 <= len(caplog.records) <= 20
    assert {record.exc_info for record in caplog.records} == {None}


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9644", "127.0.0.1.evil.example", "localhost.evil.example"]
)
async def test_a_page_whose_name_resolves_to_this_machine_reads_nothing(
    endpoint: MonitoringEndpoint, host: str
) -> None:
    for path in ("/metrics", "/health"):
        answer = await exchange(endpoint, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert answer.split()[1] == b"421"
        assert b"answer 42" not in answer


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9644", "127.0.0.1:9644", "[::1]:9644", "[::1]", "192.0.2.1", ""]
)
async def test_addresses_and_localhost_are_answered(endpoint: MonitoringEndpoint, host: str) -> None:
    header = f"Host: {host}\r\n" if host else ""
    answer = await exchange(endpoint, f"GET /metrics HTTP/1.1\r\n{header}\r\n".encode())
    assert answer.split()[1] == b"200"


async def test_a_request_that_is_too_long_is_cut_off(endpoint: MonitoringEndpoint) -> None:
    assert await exchange(endpoint, b"GET /" + b"a" * (64 << 10)) == b""


async def test_a_client_that_says_nothing_is_not_waited_for(
    endpoint: MonitoringEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_PATIENCE_SECONDS", 0.05)
    assert await exchange(endpoint, b"GET /metrics HTTP/1.1\r\n") == b""


async def test_an_address_that_is_taken_is_refused_with_what_to_do(endpoint: MonitoringEndpoint) -> None:
    with pytest.raises(ListenError, match=r"choose another penstock\.metrics\.listen"):
        await MonitoringEndpoint(FixedMetrics(), list).start(f"127.0.0.1:{endpoint.port}")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", True),
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text;version=9.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
    ],
)
def test_who_prefers_openmetrics_gets_it(accept: str, wanted: bool) -> None:
    assert prefers_openmetrics(accept) is wanted


async def test_the_format_of_metrics_is_negotiated(endpoint: MonitoringEndpoint) -> None:
    answer = await exchange(endpoint, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
    assert b"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8" in answer
    assert b"Content-Type: text/plain; version=0.0.4" in await exchange(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")
