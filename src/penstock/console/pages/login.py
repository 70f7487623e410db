"""Logging in and out, where the cluster wants a user."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.console.guard import cookie
from penstock.console.logins import Logins, TooManyTries
from penstock.console.web import Page, explain, read_form, render, status_of, web_of
from penstock.wire.errors import KafkaError

LOGIN = "/login"
_LONGEST_NAME = 1_000
_LONGEST_PASSWORD = 10_000


async def show(request: Request) -> Response:
    if request.state.session is not None:
        return RedirectResponse("/", 303)
    return _form(request, _next(request.query_params.get("next", "")))


async def log_in(request: Request) -> Response:
    form = await read_form(request)
    user, password, onward = form.get("user", "").strip(), form.get("password", ""), _next(form.get("next", ""))
    if not user or not password:
        return _form(request, onward, user, "Name the user and the password.", 400)
    if len(user) > _LONGEST_NAME or len(password) > _LONGEST_PASSWORD:
        return _form(request, onward, "", "The user or the password is too long.", 400)
    logins = _logins(request)
    try:
        number = await logins.open(user, password, request.client.host if request.client else "")
    except TooManyTries as error:
        answer = _form(request, onward, user, str(error), 429)
        answer.headers["retry-after"] = str(max(1, round(error.wait_seconds)))
        return answer
    except (AuthenticationFailed, UsageError) as error:
        return _form(request, onward, user, explain(error), 401)
    except KafkaError as error:
        return _form(request, onward, user, explain(error), status_of(error))
    logins.end(request.state.browser)
    answer = RedirectResponse(onward, 303)
    answer.headers["set-cookie"] = cookie(request.state.cookie, number)
    return answer


async def log_out(request: Request) -> Response:
    await read_form(request)
    _logins(request).end(request.state.browser)
    answer = RedirectResponse(LOGIN, 303)
    answer.headers["set-cookie"] = cookie(request.state.cookie, "")
    return answer


def _form(request: Request, onward: str, user: str = "", failure: str = "", status: int = 200) -> Response:
    made = Page("login.html", {}, extra={"next": onward, "user": user, "failure": failure}, status=status)
    return HTMLResponse(render(request, made), status)


def _next(address: str) -> str:
    """Where to go after a login: a page of this console, whatever the address says."""
    parts = urlsplit(address) if address.startswith("/") and len(address) < 4_000 else None
    if parts is None or parts.netloc or parts.scheme or address.startswith(("//", "/\\")) or "\\" in address:
        return "/"
    if not address.isprintable() or parts.path in (LOGIN, "/logout"):
        return "/"
    return address


def _logins(request: Request) -> Logins:
    logins = web_of(request).logins
    assert logins is not None
    return logins


ROUTES = [
    Route(LOGIN, show),
    Route(LOGIN, log_in, methods=["POST"]),
    Route("/logout", log_out, methods=["POST"]),
]
