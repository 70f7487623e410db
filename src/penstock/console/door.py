"""Lets a request in with the session of its browser, or sends it to the login.

Without logins everybody has the same session: the one of the settings that the console was started with.
"""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.console.session import Session
from penstock.console.web import Web

_FOR_EVERYBODY = ("/login", "/favicon.ico")
_STATIC = "/static/"


class Door:
    """The middleware. `scope["state"]` gets `session`: None where nobody is logged in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        web, path = scope["app"].state.web, str(scope["path"])
        assert isinstance(web, Web)
        session: Session | None = web.session
        if web.logins is not None:
            session = web.logins.find(scope["state"]["browser"], is_use=not path.endswith(".live"))
        scope["state"]["session"] = session
        if session is not None or path in _FOR_EVERYBODY or path.startswith(_STATIC):
            await self._app(scope, receive, send)
        else:
            await _refusal(scope, path)(scope, receive, send)


def _refusal(scope: Scope, path: str) -> Response:
    if path.endswith(".json"):
        return JSONResponse({"error": "Log in first, at /login."}, 401)
    if path.endswith(".live"):
        return PlainTextResponse("Log in first, at /login.", 401)
    if scope["method"] not in ("GET", "HEAD"):
        return RedirectResponse("/login", 303)
    query = scope["query_string"].decode("latin-1")
    onward = path + (f"?{query}" if query else "")
    return RedirectResponse("/login" if onward == "/" else f"/login?{urlencode({'next': onward})}", 303)
