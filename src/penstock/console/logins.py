"""Who is logged in to the console.

A person logs in as a user of the cluster. Whether the password fits, and what the user may see and do, is the brokers'
business alone: each login has clients of its own, which authenticate as that user, and the console has no roles.

What a browser holds is a random id, made anew at each login. The password stays in this process, because a client
authenticates again whenever it connects. A login ends when its person logs out, when it is too old, when nobody has
used it for a while, and when the brokers no longer accept the password, which is tried every few seconds; its clients
are closed and its live pages end with it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.client.admin import Admin
from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.console.session import Session
from penstock.wire.errors import KafkaError

log = logging.getLogger("penstock.console")

_MOST_LOGINS = 200
_MOST_OF_ONE_USER = 10
_AT_ONCE = 4
_WATCH_SECONDS = 1.0
_WINDOW_SECONDS = 300.0
_TRIES_OF_USER = 5
_TRIES_OF_ADDRESS = 30
_TRIES_OF_ALL = 300
_MOST_COUNTS = 2_000


def wants_login(settings: Mapping[str, object]) -> bool:
    """Whether the brokers want a user, and the settings name none: each person logs in as their own."""
    protocol = str(settings.get("security_protocol", "")).lower()
    named = ("sasl_username", "sasl_jaas_config", "sasl_oauth_token_provider", "sasl_oauthbearer_token_endpoint_url")
    return protocol.startswith("sasl_") and not any(settings.get(name) for name in named)


@dataclass(frozen=True, slots=True)
class Rules:
    """How long a login lasts, and how often its password is tried again."""

    idle_seconds: float = 30 * 60.0
    life_seconds: float = 12 * 3600.0
    check_seconds: float = 20.0


class TooManyTries(Exception):
    """Too many logins have failed; `wait_seconds` says when the next one is heard."""

    def __init__(self, wait_seconds: float) -> None:
        super().__init__(f"Too many logins have failed. Try again in {max(1, round(wait_seconds))} s.")
        self.wait_seconds = wait_seconds


class Attempts:
    """Counts logins that are under way or have failed: of a user from an address, of an address, and of everybody.

    A user is not counted alone, or anybody could lock somebody else out.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._counts: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def begin(self, user: str, address: str) -> None:
        """Count one more, or raise TooManyTries."""
        now = self._now()
        wait = 0.0
        for key, most in self._keys(user, address):
            tries = self._counts.setdefault(key, [])
            tries[:] = [at for at in tries if now - at < _WINDOW_SECONDS]
            if len(tries) >= most:
                wait = max(wait, tries[0] + _WINDOW_SECONDS - now)
        if wait > 0:
            raise TooManyTries(wait)
        for key, _ in self._keys(user, address):
            self._counts[key].append(now)
            self._counts.move_to_end(key)
        while len(self._counts) > _MOST_COUNTS:
            self._counts.popitem(last=False)

    def forgive(self, user: str, address: str) -> None:
        """The last one was no guess: it succeeded, or no broker judged it."""
        for key, _ in self._keys(user, address):
            if self._counts.get(key):
                self._counts[key].pop()

    def _keys(self, user: str, address: str) -> list[tuple[tuple[str, str], int]]:
        network = _network(address)
        return [((user, network), _TRIES_OF_USER), (("", network), _TRIES_OF_ADDRESS), (("", ""), _TRIES_OF_ALL)]


class Logins:
    """The logins of all browsers, by the id in the cookie. Bounded: the one unused for longest makes room."""

    def __init__(
        self,
        settings: Mapping[str, object],
        rules: Rules | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        client_config: str = "",
    ) -> None:
        self._settings = dict(settings)
        self._client_config = client_config
        self._rules = rules or Rules()
        self._now = now
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._closing: set[asyncio.Task[None]] = set()
        self.attempts = Attempts(now)

    async def open(self, user: str, password: str, address: str) -> str:
        """Log in; returns the id for the cookie. Raises TooManyTries, AuthenticationFailed or another error."""
        self.attempts.begin(user, address)
        try:
            settings = {**self._settings, "sasl_username": user, "sasl_password": password}
            session = Session(settings, self._client_config)
            async with self._few:
                await session.admin()
        except (AuthenticationFailed, UsageError) as error:
            log.warning("login of %r from %s failed: %s", user, address, error)
            raise
        except BaseException:
            self.attempts.forgive(user, address)
            raise
        self.attempts.forgive(user, address)
        number = secrets.token_urlsafe(32)
        self._logins[number] = _Login(session, self._now())
        own = [each for each, login in self._logins.items() if login.session.user == user]
        for each in own[:-_MOST_OF_ONE_USER] or list(self._logins)[:-_MOST_LOGINS]:
            self.end(each)
        return number

    def find(self, number: str, *, is_use: bool) -> Session | None:
        """The session of a browser's id. A live page that reconnects by itself is no use of it."""
        login = self._logins.get(number)
        if login is None:
            return None
        now = self._now()
        if self._is_over(login, now):
            self.end(number)
            return None
        if is_use:
            login.used_at = now
            self._logins.move_to_end(number)
        return login.session

    def end(self, number: str) -> None:
        """Log out: from now on the id means nobody; streams end, and clients are closed."""
        login = self._logins.pop(number, None)
        if login is None:
            return
        login.session.is_over.set()
        task = asyncio.ensure_future(login.session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def watch(self) -> None:
        """End what is too old, unused, or of a user whose password has changed. Runs as long as the console."""
        while True:
            await asyncio.sleep(min(_WATCH_SECONDS, self._rules.check_seconds))
            now = self._now()
            for number, login in list(self._logins.items()):
                if self._is_over(login, now):
                    self.end(number)
            due = [item for item in self._logins.items() if now - item[1].checked_at >= self._rules.check_seconds]
            await asyncio.gather(*(self._check(number, login) for number, login in due))

    async def close(self) -> None:
        for number in list(self._logins):
            self.end(number)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _is_over(self, login: _Login, now: float) -> bool:
        return now - login.begun_at >= self._rules.life_seconds or now - login.used_at >= self._rules.idle_seconds

    async def _check(self, number: str, login: _Login) -> None:
        """Authenticate once more: connections that stand would outlive a changed password."""
        async with self._few:
            login.checked_at = self._now()
            try:
                settings = {**login.session.settings, "enable_metrics_push": False, "default_api_timeout_ms": 5_000}
                async with Admin(settings, client_id="penstock-console"):
                    pass
            except AuthenticationFailed:
                self.end(number)
            except (KafkaError, OSError):
                pass  # a cluster that cannot be reached says nothing about the password


class _Login:
    __slots__ = ("begun_at", "checked_at", "session", "used_at")

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.begun_at = self.used_at = self.checked_at = now


def _network(address: str) -> str:
    """An address as one that tries: of IPv6 a person has a whole network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False)) if parsed.version == 6 else address
