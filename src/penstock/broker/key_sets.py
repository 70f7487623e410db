"""The public keys that sign tokens, from a JWKS file or URL: fetched in a thread, kept, and fetched anew.

Keys are fetched anew at the configured interval, and at a limited rate when a token names a key that is not there.
Where that fails, the keys that were there stay.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from penstock import guard
from penstock.broker.world import WaitsFor
from penstock.security.oauthbearer import PublicKeys, parse_key_set

if TYPE_CHECKING:
    from http.client import HTTPMessage

    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.broker")

SCHEMES = ("file", "http", "https")
MAX_BYTES = 1 << 20
MAX_WAITING = 1000
TIMEOUT_SECONDS = 10.0
MIN_SECONDS_BETWEEN = 10.0


class KeySet:
    def __init__(self, url: str, refresh_ms: int, world: World, fetch: Callable[[str], bytes] | None = None) -> None:
        self.url = url
        self.keys = PublicKeys()
        self._refresh_seconds = max(refresh_ms / 1000, MIN_SECONDS_BETWEEN)
        self._world = world
        self._fetch = fetch or fetch_document
        self._fetching = False
        self._fetched_at: float | None = None
        self._waiting: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Fetch the keys now and at each interval."""
        self._begin()

    def stop(self) -> None:
        self._stopped = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def refresh(self, done: Callable[[], None]) -> bool:
        """Have the keys fetched because one is missing, then call `done`; False if that was done a moment ago."""
        if not self._fetching:
            since = self._fetched_at
            if since is not None and self._world.monotonic() - since < MIN_SECONDS_BETWEEN:
                return False
            self._begin()
        if len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting.append(done)
        return True

    def _begin(self) -> None:
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._fetching = True
        fetching = self._world.in_thread(lambda: parse_key_set(self._fetch(self.url)), WaitsFor.SERVER)
        fetching.add_done_callback(self._finished)

    def _finished(self, result: asyncio.Future[PublicKeys]) -> None:
        self._fetching = False
        self._fetched_at = self._world.monotonic()
        if self._stopped or result.cancelled():
            return
        if (error := result.exception()) is not None:
            log.warning(
                "cannot fetch token keys from %s: %s; %d known keys stay in use", self.url, error, len(self.keys)
            )
        else:
            self.keys = result.result()
            log.info("fetched %s: %d token keys", self.url, len(self.keys))
        seconds = self._refresh_seconds if error is None else MIN_SECONDS_BETWEEN
        self._timer = self._world.call_later(seconds, self._begin)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            guard.attempt("checking a token against fetched keys", done)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Who may answer is what the config says, not what an answer says."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        raise urllib.error.HTTPError(req.full_url, code, "it redirects elsewhere; name that address", headers, fp)


def fetch_document(url: str) -> bytes:
    """What a `file://`, `http://` or `https://` address holds, up to a bound. Raises OSError or ValueError."""
    if urlsplit(url).scheme not in SCHEMES:
        raise ValueError("it is none of " + ", ".join(f"{scheme}://" for scheme in SCHEMES))
    with urllib.request.build_opener(_NoRedirects()).open(url, timeout=TIMEOUT_SECONDS) as answer:
        document: bytes = answer.read(MAX_BYTES + 1)
    if len(document) > MAX_BYTES:
        raise ValueError(f"the key set has more than {MAX_BYTES} bytes")
    return document
