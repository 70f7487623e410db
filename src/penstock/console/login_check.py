"""Lets a request in with the session of its browser, or sends it to the login.

Without logins everybody has the same session: the one of the settings that the console was started with.
"""

from __future__ import annotations

import asyncio

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.console.session import Session
from penstock.console.web import Web, log_in_first

_FOR_EVERYBODY = ("/login", "/favicon.ico")
_STATIC = "/static/"


class LoginCheck:
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
            await self._serve(web, session, scope, receive, send)
        else:
            await log_in_first(scope)(scope, receive, send)

    async def _serve(self, web: Web, session: Session | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and notice what ends meanwhile: the console, or a login, whose clients are closed, which cancels what
        waits for them."""
        is_begun = False
        task = asyncio.current_task()
        assert task is not None

        async def noting(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        web.under_way.add(task)
        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if web.is_closing.is_set():
                if not is_begun:
                    await PlainTextResponse("The console is being stopped.", 503)(scope, receive, send)
            elif session is not None and session.is_over.is_set() and not is_begun and not task.cancelling():
                await log_in_first(scope)(scope, receive, send)
            else:
                raise
        finally:
            web.under_way.discard(task)
