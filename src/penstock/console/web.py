"""From a page's data to its three forms, and from a form to a change.

A page is a function of a request that returns a `Page`: a template and data that JSON can hold. `page(path, function)`
serves it as HTML, with `.json` behind the path as data, and with `.live` behind it as server-sent events: the block
`live` of its template, rendered again every `live_seconds` and sent when it has changed.

A change is a function of a request and its form that returns a `Change`. `change(path, function)` shows what would be
done and the command that does the same; once the person agrees it is performed (`questions`), and the browser goes back
to a page.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.console import formats
from penstock.console.guard import TOKEN_FIELD, TOKEN_HEADER, Tokens
from penstock.console.logins import Logins
from penstock.console.names import decode_name, encode_name
from penstock.console.questions import Change, Form, Questions
from penstock.console.session import Session
from penstock.console.sorting import reverse_of
from penstock.wire.errors import ErrorCode, KafkaError

TEMPLATES = Path(__file__).parent / "templates"
_MAX_FIELDS = 2_000
_MAX_NOTICES = 1_000
_NOTICE = "notice"
_CONSENT = "consent"
_STREAMS = 400  # at once; a tab has one, and none while it is hidden
_STREAMS_OF_SESSION = 64
_IDLE_SECONDS = 15.0

# (address, word, key): `g` and the key goes there
NAVIGATION: list[tuple[str, str, str]] = []


@dataclass(slots=True)
class Page:
    """What a page shows. `data` is the JSON twin; `extra` is for the template alone."""

    template: str
    data: Mapping[str, object]
    live_seconds: float | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    status: int = 200


PageFunction = Callable[[Request], Awaitable[Page]]
ChangeFunction = Callable[[Request, Form], Awaitable[Change]]


class Web:
    """What all requests share: templates, tokens, sessions, notices, the count of streams."""

    def __init__(self, session: Session | None, logins: Logins | None, pipelines: Path) -> None:
        """With the one session of everybody, or with logins. `pipelines` is the folder of the histories of runs."""
        self.pipelines = pipelines
        self.session = session
        self.logins = logins
        self.tokens = Tokens()
        self.questions = Questions()
        self.streams = asyncio.Semaphore(_STREAMS)
        self.is_closing = asyncio.Event()
        self.under_way: set[asyncio.Task[object]] = set()
        """The requests that are being answered."""
        self._notices: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self.templates.filters.update(formats.FILTERS)
        self.templates.filters["name"] = encode_name
        self.templates.globals["navigation"] = NAVIGATION
        self.templates.globals["reverse_of"] = reverse_of

    def notice(self, browser: str, text: str, address: str) -> str:
        """`address` with an id under which this browser is shown `text` there, and nowhere else.

        Reading a notice does not remove it, so that no other request can take it and a repeated one shows it too. The
        page's script removes the id from the address, so that a reload does not show it again.
        """
        number = secrets.token_urlsafe(12)
        self._notices[browser, number] = text
        while len(self._notices) > _MAX_NOTICES:
            self._notices.popitem(last=False)
        return f"{address}{'&' if '?' in address else '?'}{_NOTICE}={number}"

    def noticed(self, request: Request) -> str:
        """What the id in the request's address stands for, if anything."""
        return self._notices.get((request.state.browser, request.query_params.get(_NOTICE, "")), "")


def web_of(request: Request) -> Web:
    web = request.app.state.web
    assert isinstance(web, Web)
    return web


def session_of(request: Request) -> Session:
    """The clients that stand behind this request."""
    session = request.state.session
    assert isinstance(session, Session)
    return session


def name_in(request: Request, parameter: str = "name") -> str:
    """The name of a topic or group in the request's address."""
    return decode_name(str(request.path_params[parameter]))


# Pages


def page(path: str, function: PageFunction) -> list[BaseRoute]:
    """The routes of a page and its twins."""
    stem = "/index" if path == "/" else path

    async def html(request: Request) -> Response:
        made = await function(request)
        return HTMLResponse(render(request, made), made.status)

    async def data(request: Request) -> Response:
        made = await function(request)
        return JSONResponse(dict(made.data), made.status)

    async def live(request: Request) -> Response:
        try:
            first = await function(request)
        except KafkaError as error:
            if isinstance(error, AuthenticationFailed) or status_of(error) < 500:
                raise
            return stream(request, _failing(error))  # a browser reads no reason from a refusal
        if first.live_seconds is None:
            raise HTTPException(404, "This page has no live form.")
        return stream(request, _renderings(request, function, first))

    return [Route(stem + ".json", data), Route(stem + ".live", live), Route(path, html)]


def render(request: Request, made: Page, block: str | None = None) -> str:
    """A page, or one block of it, as HTML."""
    web = web_of(request)
    browser = request.state.browser
    template = web.templates.get_template(made.template)
    query = [item for item in request.query_params.multi_items() if item[0] != _NOTICE]

    def address_with(**changes: object) -> str:
        """This page with another order, or another part of it."""
        kept = [item for item in query if item[0] not in changes]
        return f"?{urlencode([*kept, *changes.items()])}"

    context = {
        **made.data,
        **made.extra,
        "path": request.url.path.removesuffix(".live"),
        "query": urlencode(query),
        "address_with": address_with,
        "token": web.tokens.of(browser),
        "token_field": TOKEN_FIELD,
        "session": request.state.session,
        "has_logins": web.logins is not None,
        "live_seconds": made.live_seconds,
    }
    if block is not None:
        return "".join(template.blocks[block](template.new_context(context)))
    return str(template.render(context, notice=web.noticed(request)))


async def _renderings(request: Request, function: PageFunction, first: Page) -> AsyncIterator[tuple[str, object]]:
    made, sent = first, ""
    began = time.monotonic()
    while True:
        text = (
            await asyncio.to_thread(render, request, made, "live")
            if len(sent) > 200_000
            else render(request, made, "live")
        )
        if text != sent:
            sent = text
            yield "live", text
        pause = made.live_seconds or 2.0
        await asyncio.sleep(max(pause / 2, pause - (time.monotonic() - began)))  # the reading is part of the interval
        began = time.monotonic()
        made = await function(request)


async def _failing(error: KafkaError) -> AsyncIterator[tuple[str, object]]:
    """The events of a page that cannot be read now."""
    raise error
    yield


def stream(request: Request, events: AsyncIterator[tuple[str, object]]) -> Response:
    """Server-sent events, each with a name and data that becomes JSON. Ends with the console, and with the login."""
    web, session = web_of(request), session_of(request)
    if web.streams.locked() or session.streams >= _STREAMS_OF_SESSION:
        raise HTTPException(503, f"{min(_STREAMS, _STREAMS_OF_SESSION)} live pages are open; close one of them.")

    async def body() -> AsyncIterator[str]:
        async with web.streams:
            session.streams += 1
            yield "retry: 2000\n\n"
            pending: asyncio.Task[tuple[str, object]] | None = None
            ends = {asyncio.ensure_future(event.wait()) for event in (web.is_closing, session.is_over)}
            try:
                while not web.is_closing.is_set():
                    pending = pending or asyncio.ensure_future(anext(events))
                    await asyncio.wait({pending, *ends}, timeout=_IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    if session.is_over.is_set():
                        yield "event: over\ndata: null\n\n"
                        return
                    if not pending.done():
                        yield ": still here\n\n"
                        continue
                    done, pending = pending, None
                    name, data = done.result()
                    yield f"event: {name}\ndata: {json.dumps(data)}\n\n"
            except StopAsyncIteration:
                yield "event: end\ndata: null\n\n"
            except (KafkaError, UsageError, ValueError) as error:
                yield f"event: failed\ndata: {json.dumps(explain(error))}\n\n"
            finally:
                session.streams -= 1
                for each in ends:
                    each.cancel()
                if pending is not None:
                    pending.cancel()
                    await asyncio.gather(pending, return_exceptions=True)
                close = getattr(events, "aclose", None)
                if close is not None:
                    await close()

    return StreamingResponse(body(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


# Changes


def change(path: str, function: ChangeFunction) -> list[BaseRoute]:
    """The route of a change: first what it would do, then, with consent, the deed."""

    async def post(request: Request) -> Response:
        form, session = await read_form(request), session_of(request)
        web, browser, address = web_of(request), request.state.browser, request.url.path
        if _CONSENT in form:
            question = web.questions.find(form[_CONSENT], browser, address, session)
            if question is None:
                raise HTTPException(409, "This question is no longer open. Go back to the page and begin again.")
            request.state.back = question.change.back
            done = await question.consent(form)
            return RedirectResponse(web.notice(browser, done, question.change.onward or question.change.back), 303)
        wanted = await function(request, form)
        number = web.questions.ask(browser, address, session, wanted)
        made = Page("confirm.html", {}, extra={"change": wanted, "consent": number, "action": address})
        return HTMLResponse(render(request, made))

    return [Route(path, post, methods=["POST"])]


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form whose token belongs to this browser."""
    try:
        fields = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, f"The form cannot be read: {error}") from None
    form = dict(fields)
    token = form.get(TOKEN_FIELD) or request.headers.get(TOKEN_HEADER, "")
    if not web_of(request).tokens.fits(request.state.browser, token):
        raise HTTPException(
            403, "The form is from an earlier run of this console. Go back, reload the page, try again."
        )
    return form


def field_of(form: Form, name: str, *, limit: int = 1_000) -> str:
    """A field that must be there."""
    value = form.get(name, "").strip()
    if not value:
        raise HTTPException(400, f"The field {name!r} is empty.")
    if len(value) > limit:
        raise HTTPException(400, f"The field {name!r} is longer than {limit} characters.")
    return value


def number_of(text: str, what: str, low: int = 0, high: int = 2**63 - 1) -> int:
    """A whole number within bounds."""
    try:
        value = int(text)
    except ValueError:
        raise HTTPException(400, f"{what} is {text[:50]!r}; it must be a whole number.") from None
    if not low <= value <= high:
        raise HTTPException(400, f"{what} is {value}; it must be between {low} and {high}.")
    return value


# Errors

_NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND,
}
_REFUSED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def explain(error: Exception) -> str:
    text = str(error) or error.__class__.__name__
    return text[:1].upper() + text[1:]


def status_of(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return int(error.status_code)
    if isinstance(error, KafkaError):
        if error.code in _NOT_FOUND:
            return 404
        if error.code in _REFUSED:
            return 403
        return 503 if error.code == ErrorCode.NETWORK_EXCEPTION else 502
    return 400


async def failed(request: Request, error: Exception) -> Response:
    """The page of an error, or its JSON."""
    web, session = web_of(request), request.state.session
    if isinstance(error, AuthenticationFailed) and web.logins is not None:
        web.logins.end(request.state.browser)
    if session is not None and session.is_over.is_set():
        return log_in_first(request.scope)
    status = status_of(error)
    text = error.detail if isinstance(error, HTTPException) else explain(error)
    if isinstance(error, AuthenticationFailed) and session is not None and session.user is None:
        text += ". Or start the console with --login, and each person logs in as their own user."
    if request.url.path.endswith(".json"):
        return JSONResponse({"error": text}, status)
    back = request.url.path if request.method in ("GET", "HEAD") else _page_before(request)
    made = Page("error.html", {}, extra={"status": status, "text": text, "back": back}, status=status)
    return HTMLResponse(render(request, made), status)


def _page_before(request: Request) -> str:
    """The page that a form was submitted from, to go back to."""
    if "back" in request.scope["state"]:
        return str(request.state.back)
    before = urlsplit(request.headers.get("referer", ""))
    if before.netloc != request.headers.get("host") or not before.path.startswith("/") or before.path[1:2] == "/":
        return "/"
    return f"{before.path}?{before.query}" if before.query else before.path


def log_in_first(scope: Scope) -> Response:
    """The answer to a request that needs a login and has none: the way to it, or for programs an error."""
    path = str(scope["path"])
    if path.endswith(".json"):
        return JSONResponse({"error": "Log in first, at /login."}, 401)
    if path.endswith(".live"):
        return PlainTextResponse("Log in first, at /login.", 401)
    if scope["method"] not in ("GET", "HEAD"):
        return RedirectResponse("/login", 303)
    query = scope["query_string"].decode("latin-1")
    onward = path + (f"?{query}" if query else "")
    return RedirectResponse("/login" if onward == "/" else f"/login?{urlencode({'next': onward})}", 303)
