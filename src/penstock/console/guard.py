"""What stands between the pages and the rest of the web.

Every request must name a host that this console serves, or a page of another site could reach it by DNS rebinding. A
request that changes something must come from one of the console's own pages: its Origin must be this host, and its form
must hold the token that belongs to the browser's cookie. Every answer says that nothing but the console's own files may
be loaded, run, framed or sent to.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "penstock-console"
_SECURE_COOKIE = f"__Host-{COOKIE}"  # browsers take it over TLS only, and from no other host of the domain
TOKEN_FIELD = "csrf"
TOKEN_HEADER = "x-csrf-token"
MAX_BODY_BYTES = 4 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_READING = ("GET", "HEAD")
_ID = re.compile(r"[\w-]{16,128}", re.ASCII)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Tokens:
    """The token of each browser, made from the random id in its cookie and a key that only this process has."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, browser: str) -> str:
        return hmac.new(self._key, browser.encode(), hashlib.sha256).hexdigest()

    def fits(self, browser: str, token: str) -> bool:
        return bool(browser) and hmac.compare_digest(self.of(browser).encode(), token.encode())


def cookie_name(host: str, is_secure: bool) -> str:
    """The name of the cookie at a host. Cookies know no ports, so two consoles of one machine would share theirs."""
    name, port = _SECURE_COOKIE if is_secure else COOKIE, host.rpartition(":")[2]
    return f"{name}-{port}" if port.isascii() and port.isdigit() and len(port) <= 5 else name


def cookie(name: str, number: str) -> str:
    """A Set-Cookie header with a browser's id; with an empty one the browser forgets its own.

    SameSite=Lax, so that a link from elsewhere opens a page for somebody who is logged in; what changes something is
    never a GET, and checked for its origin and its token besides.
    """
    safe = "; Secure" if name.startswith(_SECURE_COOKIE) else ""
    return f"{name}={number}; Path=/; HttpOnly; SameSite=Lax{safe}{'' if number else '; Max-Age=0'}"


def allowed_hosts(listen: str, names: Iterable[str] = ()) -> frozenset[str]:
    """The values of the Host header that a console at `listen` serves: loopback names, and `names`.

    A name without a port means the port of `listen`, and the standard ones, which browsers leave out.
    """
    port = listen.rpartition(":")[2]
    hosts = {f"{name}:{port}" for name in _LOOPBACK} | {listen}
    for name in names:
        hosts |= {name} if ":" in name.rpartition("]")[2] else {name, f"{name}:{port}"}
    if port in ("80", "443"):
        hosts |= {*_LOOPBACK, listen.rpartition(":")[0]}
    return frozenset(host.lower() for host in hosts)


class Guard:
    """The middleware. `scope["state"]` gets `browser`, the id in the cookie, for the pages to make tokens from, and
    `cookie`, the name of that cookie."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], is_secure: bool = False) -> None:
        self._app = app
        self._hosts = hosts
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookie_at = cookie_name(headers.get("host", ""), self._has_tls(headers))
        browser = _browser(headers.get("cookie", ""), cookie_at)
        is_new = not browser
        if is_new:
            browser = secrets.token_urlsafe(32)
        scope.setdefault("state", {}).update(browser=browser, cookie=cookie_at)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answered[name] = value
                answered.setdefault("cache-control", "no-store")
                if self._is_secure:
                    answered["strict-transport-security"] = "max-age=31536000"
                if is_new and "set-cookie" not in answered:
                    answered["set-cookie"] = cookie(cookie_at, browser)
            await send(message)

        refusal = self._refusal(scope["method"], headers)
        await (self._app if refusal is None else refusal)(scope, receive, guarded)

    def _has_tls(self, headers: Headers) -> bool:
        """Whether the browser is at the other end of TLS: this console's own, or under another name than this machine's
        that of a proxy, as plain HTTP is served to this machine alone."""
        name = headers.get("host", "").lower()
        return self._is_secure or (name if name.endswith("]") else name.rpartition(":")[0] or name) not in _LOOPBACK

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            text = (
                f"This console does not serve the host {host!r}; open it under one of: {', '.join(sorted(self._hosts))}"
            )
            return PlainTextResponse(text, 421)
        if method in _READING:
            return None
        origin = headers.get("origin", "")
        if origin not in ((f"https://{host}",) if self._has_tls(headers) else (f"http://{host}", f"https://{host}")):
            text = f"A change must come from a page of this console, https://{host}/ (its Origin is another)."
            return PlainTextResponse(text if self._has_tls(headers) else text.replace("https:", "http:"), 403)
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("A change must come from a page of this console (it is cross-site).", 403)
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return PlainTextResponse(f"A form must say its length, at most {MAX_BODY_BYTES} bytes.", 413)
        return None


def _browser(header: str, name: str) -> str:
    """The id in the cookie, if it is one that this console may have made; other cookies may hold what they like."""
    for pair in header.split(";"):
        found, _, number = pair.strip().partition("=")
        if found == name:
            return number if _ID.fullmatch(number) else ""
    return ""
