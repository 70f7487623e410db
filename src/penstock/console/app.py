"""The application: every page joined, behind the guard."""

from __future__ import annotations

import asyncio
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
from penstock.console.decoders.avro import MalformedSchema
from penstock.console.filters import FilterError
from penstock.console.guard import Guard
from penstock.console.login_check import LoginCheck
from penstock.console.logins import Logins, Rules, wants_login
from penstock.console.moments import MalformedMoment
from penstock.console.names import MalformedName
from penstock.console.pages import (
    access,
    clients,
    cluster,
    groups,
    login,
    messages,
    overview,
    queues,
    topics,
    transactions,
)
from penstock.console.pages import pipelines as pipeline_pages
from penstock.console.patterns import TooSlow
from penstock.console.session import Session
from penstock.wire.errors import KafkaError

DEFAULT_PIPELINES = "penstock-pipelines"
STATIC = Path(__file__).parent / "static"
FAMILIES = (overview, messages, topics, groups, queues, transactions, clients, cluster, pipeline_pages, access)


def create_app(
    settings: Mapping[str, object],
    hosts: frozenset[str],
    *,
    is_secure: bool = False,
    rules: Rules | None = None,
    pipelines: Path = Path(DEFAULT_PIPELINES),
    client_config: str = "",
) -> Starlette:
    """The console of the cluster that `settings` of `penstock.client` reach, for browsers that name one of `hosts`.

    Where the settings name no user and the cluster wants one, people log in, by `rules`. `is_secure` says that it is
    served over TLS. `pipelines` is the folder in which pipelines note their runs, `client_config` the
    file that the settings come from, if it is one.
    """
    web.NAVIGATION[:] = [entry for family in FAMILIES for entry in getattr(family, "NAVIGATION", [])]
    has_logins = wants_login(settings)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        logins = Logins(settings, rules, client_config=client_config) if has_logins else None
        session = None if has_logins else Session(settings, client_config)
        app.state.web = web.Web(session, logins, pipelines)
        watch = asyncio.ensure_future(logins.watch()) if logins is not None else None
        yield
        app.state.web.is_closing.set()
        if watch is not None:
            watch.cancel()
        if logins is not None:
            await logins.close()
        if session is not None:
            await session.close()

    routes = [route for family in FAMILIES for route in family.ROUTES]
    if has_logins:
        routes += login.ROUTES
    return Starlette(
        routes=[Mount("/static", StaticFiles(directory=STATIC)), Route("/favicon.ico", _icon), *routes],
        middleware=[Middleware(Guard, hosts=hosts, is_secure=is_secure), Middleware(LoginCheck)],
        exception_handlers={
            KafkaError: web.failed,
            UsageError: web.failed,
            MalformedName: web.failed,
            FilterError: web.failed,
            MalformedMoment: web.failed,
            MalformedSchema: web.failed,
            TooSlow: web.failed,
            HTTPException: web.failed,
        },
        lifespan=life,
    )


async def _icon(request: Request) -> Response:
    return Response((STATIC / "icon.svg").read_bytes(), media_type="image/svg+xml")
