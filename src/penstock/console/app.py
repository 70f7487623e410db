"""The application: every page joined, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.client.errors import UsageError
from penstock.console import web
from penstock.console.guard import Guard
from penstock.console.names import MalformedName
from penstock.console.pages import groups, overview, queues, topics
from penstock.console.session import Session
from penstock.wire.errors import KafkaError

STATIC = Path(__file__).parent / "static"
FAMILIES = (overview, topics, groups, queues)


def create_app(settings: Mapping[str, object], hosts: frozenset[str]) -> Starlette:
    """The console of the cluster that `settings` of `penstock.client` reach, for browsers that name one of `hosts`."""
    web.NAVIGATION[:] = [entry for family in FAMILIES for entry in getattr(family, "NAVIGATION", [])]

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.web = web.Web(Session(settings))
        yield
        app.state.web.is_closing.set()
        await app.state.web.session.close()

    routes = [route for family in FAMILIES for route in family.ROUTES]
    return Starlette(
        routes=[Mount("/static", StaticFiles(directory=STATIC)), Route("/favicon.ico", _icon), *routes],
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={
            KafkaError: web.failed,
            UsageError: web.failed,
            MalformedName: web.failed,
            HTTPException: web.failed,
        },
        lifespan=life,
    )


async def _icon(request: Request) -> Response:
    return Response((STATIC / "icon.svg").read_bytes(), media_type="image/svg+xml")
