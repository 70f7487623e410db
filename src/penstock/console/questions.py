"""Changes that wait for a person's consent.

A page asks before it changes anything, and holds what it asked about: the consent names the question, and nothing is
worked out anew. So what is done is what was shown, and however often a consent arrives (a doubled click, a repeated
request) it is carried out once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.console.session import Session

Form: TypeAlias = Mapping[str, str]
_MOST_QUESTIONS = 2_000
_MINUTES = 15


@dataclass(slots=True)
class Change:
    """A change as a person is asked about it."""

    question: str
    command: str
    """The `penstock` command that does the same."""
    back: str
    """The page to return to."""
    perform: Callable[[Form], Awaitable[str]]
    """Carries it out, given the form of the consent; returns what to tell the person."""
    button: str = "Do it"
    danger: bool = False
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    secret: str = ""
    """The name of a field that is asked for together with the consent, and stands in no page."""
    onward: str = ""
    """The page to go to once it is done, if that is another."""


@dataclass(slots=True)
class Question:
    """A change that was shown to one browser."""

    browser: str
    path: str
    session: Session
    change: Change
    asked_at: float
    _task: asyncio.Task[str] | None = field(default=None, init=False)

    async def consent(self, form: Form) -> str:
        """Carry it out, or wait for whoever does, or did. What has failed may be tried again."""
        if self._task is None or (self._task.done() and (self._task.cancelled() or self._task.exception())):
            self._task = asyncio.ensure_future(self.change.perform(form))
        return await asyncio.shield(self._task)


class Questions:
    """The questions of all browsers, within bounds: the oldest are forgotten."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._questions: OrderedDict[str, Question] = OrderedDict()

    def ask(self, browser: str, path: str, session: Session, change: Change) -> str:
        """Remember a question; returns the id that a consent names."""
        number = secrets.token_urlsafe(16)
        self._questions[number] = Question(browser, path, session, change, self._now())
        while len(self._questions) > _MOST_QUESTIONS:
            self._questions.popitem(last=False)
        return number

    def find(self, number: str, browser: str, path: str, session: Session) -> Question | None:
        """The question of an id, if this browser was asked it here, by this login, and lately."""
        found = self._questions.get(number)
        if found is None or (found.browser, found.path, found.session) != (browser, path, session):
            return None
        return found if self._now() - found.asked_at < _MINUTES * 60 else None
