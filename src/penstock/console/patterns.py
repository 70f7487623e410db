"""Regular expressions that end in time.

RE2 takes time in proportion to what it searches, whatever the pattern. But the proportion is that of the pattern: where
its automaton does not fit into memory, `(a?){1000}b` takes 20 seconds for a mebibyte. So every expression has a
`Clock`. It stops a search that works too long on one batch, and says which batches are to be searched in a thread,
where RE2 lets the rest of the console go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re2 import _Regexp

_MEMORY = 8 << 20
_MOST_INSTRUCTIONS = 20_000
_LIMIT_SECONDS = 2.0  # of processor time, for one batch
_STEPS_UNTIMED = 2_000_000  # instructions times bytes: at worst a hundredth of a second
_STEPS_IN_LOOP = 40_000_000
_STEPS_TRIED = 200_000_000
_MOST_STEPS = 10_000_000_000
_AROUND = re.compile(r"(\(\?[a-z]+\))?\^?(.*?)\$?", re.DOTALL)
_ANCHORS = re.compile(r"[\^$]|\\[AzbBZ]")


class MalformedPattern(ValueError):
    """This is no regular expression that can be searched for; the text says why."""


class TooSlow(ValueError):
    """A search has worked too long on one batch."""

    def __init__(self) -> None:
        super().__init__(
            f"The regular expression takes too long: more than {_LIMIT_SECONDS:g} s for one batch of records. Use a "
            "simpler one, with fewer or smaller repetitions."
        )


class Clock:
    """The time that the patterns of one expression may take."""

    def __init__(self) -> None:
        self._instructions = 0
        self._untimed = 0
        self._begun_at = 0.0

    def begin(self) -> None:
        """A batch is begun, in the thread that calls."""
        self._untimed = 0
        self._begun_at = time.thread_time()

    def is_dear(self, size: int) -> bool:
        """Whether so many bytes may take longer than the event loop can wait."""
        return self._instructions * size > _STEPS_IN_LOOP

    def add(self, instructions: int) -> None:
        """One more pattern."""
        self._instructions += instructions

    def spend(self, steps: int) -> None:
        """Note what is about to be searched, or raise TooSlow."""
        self._untimed += steps
        if self._untimed > _STEPS_UNTIMED:
            self._untimed = 0
            if time.thread_time() - self._begun_at > _LIMIT_SECONDS:
                raise TooSlow


class Pattern:
    """A compiled regular expression. Its searches raise TooSlow."""

    __slots__ = ("_clock", "_instructions", "_search", "_text")

    def __init__(self, text: str, clock: Clock) -> None:
        """Raises MalformedPattern."""
        self._text = text
        compiled = _compiled(text)
        self._search: Callable[[bytes], object] = compiled.search
        self._instructions: int = compiled.programsize
        self._clock = clock
        if self._instructions > _MOST_INSTRUCTIONS:
            raise MalformedPattern("it is too large; use fewer or smaller repetitions")
        clock.add(self._instructions)

    def is_in(self, data: bytes) -> bool:
        steps = self._instructions * len(data)
        self._clock.spend(steps)
        if steps > _STEPS_TRIED:  # nothing can stop RE2 while it searches
            self._try(data)
        return self._search(data) is not None

    def may_be_in(self, data: bytes) -> bool:
        """The same of many records in a row, where it is quickly told."""
        return self._instructions * len(data) > _STEPS_TRIED or self.is_in(data)

    def without_anchors(self) -> Pattern | None:
        """What text that this is in holds wherever it stands, such as in a batch; None if that is not easily told."""
        found = _AROUND.fullmatch(self._text)
        if found is None or found[2].endswith("\\") or _ANCHORS.search(found[2]):
            return None
        text = (found[1] or "") + found[2]
        try:
            return self if text == self._text else Pattern(text, self._clock)
        except MalformedPattern:
            return None

    def _try(self, data: bytes) -> None:
        """Tell from the beginning of something large how long the whole would take."""
        beginning = data[: _STEPS_TRIED // self._instructions]
        began = time.thread_time()
        self._search(beginning)
        took = time.thread_time() - began
        if took * len(data) > _LIMIT_SECONDS * len(beginning) or self._instructions * len(data) > _MOST_STEPS:
            raise TooSlow


def _compiled(pattern: str) -> _Regexp:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        words = error.args[0] if error.args else ""
        raise MalformedPattern(words.decode(errors="replace") if isinstance(words, bytes) else str(words)) from None
