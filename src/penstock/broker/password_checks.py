"""Passwords held against stored credentials, in threads: few at a time, and a bounded number that waits.

Deriving a key from a password takes milliseconds, by design, and everybody may send passwords.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.security import scram
from penstock.security.failures import AuthenticationFailed

if TYPE_CHECKING:
    from penstock.broker.credentials import Stored
    from penstock.broker.world import World

AT_ONCE = 2
MAX_WAITING = 512


class TooBusy(AuthenticationFailed):
    """More passwords are waiting to be checked than a broker lets wait."""


class _Check(NamedTuple):
    stored: Stored
    password: str
    done: Callable[[bool], None]


class PasswordChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._running = 0
        self._waiting: deque[_Check] = deque()

    def check(self, stored: Stored, password: str, done: Callable[[bool], None]) -> None:
        """Call `done` with whether it is the password of the credential. Raises TooBusy."""
        check = _Check(stored, password, done)
        if self._running < AT_ONCE:
            self._start(check)
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(check)
        else:
            raise TooBusy("Authentication failed: too many clients are authenticating, try again")

    def _start(self, check: _Check) -> None:
        self._running += 1
        work = partial(scram.matches, check.stored.mechanism, check.stored.credential, check.password)
        self._world.in_thread(work).add_done_callback(partial(self._finished, check))

    def _finished(self, check: _Check, result: asyncio.Future[bool]) -> None:
        self._running -= 1
        if self._waiting:
            self._start(self._waiting.popleft())
        if not result.cancelled():
            check.done(result.exception() is None and result.result())
