"""Clients: who is connected, and what those report that push their metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client.monitoring import CONFIG
from penstock.console.web import Page, name_in, page, session_of

NAVIGATION = [("/clients", "Clients", "c")]
_MOST = 500
_MOST_LATENCIES = 3
_KINDS = {"avg": "mean", "max": "largest"}


async def clients(request: Request) -> Page:
    search = request.query_params.get("q", "")[:249]
    monitoring = session_of(request).monitoring
    by_broker = await monitoring.by_broker("/clients")
    pushing, connections = _rows(by_broker, "clients"), _rows(by_broker, "connections")
    shown_pushing, shown_connections = _matching(pushing, search), _matching(connections, search)
    data = {
        "search": search,
        "clients": [{**row, "latencies": latencies(row)} for row in shown_pushing[:_MOST]],
        "connections": shown_connections[:_MOST],
        "client_count": len(shown_pushing),
        "connection_count": len(shown_connections),
        "is_shown": await monitoring.is_there(),
        "may_look": await monitoring.may_look(),
    }
    return Page("clients.html", data, 2.0, extra={"config": CONFIG})


async def client(request: Request) -> Page:
    number = name_in(request)
    found = await session_of(request).monitoring.by_broker("/clients", client=number)
    for broker, by_broker in found.items():
        if isinstance(by_broker, Mapping):
            return Page("client.html", {"broker": broker, **by_broker}, 2.0)
    raise HTTPException(404, f"No client {number} reports to a broker now, or your user may not describe the cluster.")


def _rows(by_broker: Mapping[int, object], what: str) -> list[dict[str, object]]:
    return [
        {"broker": broker, **row}
        for broker, views in by_broker.items()
        for row in cast("Mapping[str, list[dict[str, object]]]", views)[what]
    ]


def latencies(row: Mapping[str, object]) -> list[tuple[str, object]]:
    """The latencies that say most, in words: means before maxima, and none of what never happened."""
    told = cast("Mapping[str, float]", row.get("latenciesMs") or {})
    found = sorted((name.endswith(".max"), name, value) for name, value in told.items() if value > 0)
    return [(_words(name), value) for _, name, value in found[:_MOST_LATENCIES]]


def _words(metric: str) -> str:
    """The end of a name, as in org.apache.kafka.consumer.coordinator.heartbeat.response.time.max."""
    *words, kind = metric.split(".")
    return f"{' '.join(words[-2:] if words[-1:] == ['latency'] else words[-3:])}, {_KINDS.get(kind, kind)}"


def _matching(rows: list[dict[str, object]], search: str) -> list[dict[str, object]]:
    """Those of which a word holds the text."""
    words = ("clientId", "host", "software", "principal")
    return [row for row in rows if any(search.lower() in str(row.get(word, "")).lower() for word in words)]


ROUTES = [*page("/clients/{name}", client), *page("/clients", clients)]
