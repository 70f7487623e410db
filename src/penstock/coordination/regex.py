"""Clients' regular expressions: RE2's language, matched in linear time.

A member of a group may subscribe with a pattern in the syntax of Google's RE2 (KIP-848), and transactional ids are
listed by one (KIP-1152). RE2 has no back-references and no lookaround, which is why it can promise linear time;
Python's `re` has both and can take exponential time on a pattern such as `(a+)+b`, which one client could use to stop
the broker. So this module parses the RE2 subset itself into a Thompson automaton and runs it as a lazily built DFA.
Everything is bounded: the pattern's length, the size of counted repetitions (1,000, as in RE2), the states of the
automaton, the transitions kept.

A pattern must match the whole name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from penstock.wire.errors import InvalidRegularExpression

PATTERN_LENGTH_MAX = 4_096
REPEAT_MAX = 1_000
STATES_MAX = 20_000
DEPTH_MAX = 100
TRANSITIONS_MAX = 20_000

Matcher = Callable[[str], bool]  # does this character match?
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_EDGES = {"A": "^", "z": "$", "b": "b", "B": "B"}
_CLASSES: dict[str, Matcher] = {
    "d": lambda c: c in "0123456789",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in "\t\n\f\r ",
}
_POSIX: dict[str, Matcher] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": lambda c: c.isascii(),
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: c in "0123456789",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


class _State:
    """A state of the automaton: either one character to read, or free moves to other states."""

    __slots__ = ("assertion", "free", "matcher", "next")

    def __init__(self) -> None:
        self.matcher: Matcher | None = None
        self.next: int = -1
        self.free: list[int] = []
        self.assertion: str = ""  # the free moves are open only where this `Edge` is


class _Automaton:
    def __init__(self) -> None:
        self.states: list[_State] = []

    def new(self) -> int:
        if len(self.states) >= STATES_MAX:
            raise ValueError("expression is too large")
        self.states.append(_State())
        return len(self.states) - 1


@dataclass(frozen=True, slots=True)
class Char:
    """One character that the matcher accepts."""

    matcher: Matcher


@dataclass(frozen=True, slots=True)
class Edge:
    """`^` or `$`, the start or the end of the name; `b` where a word begins or ends, `B` where none does."""

    sign: str


@dataclass(frozen=True, slots=True)
class Sequence:
    items: list[Node]


@dataclass(frozen=True, slots=True)
class Alternatives:
    branches: list[Node]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    least: int
    most: int | None  # None: without end


Node: TypeAlias = "Char | Edge | Sequence | Alternatives | Repeat"


class _Parser:
    """Recursive descent over the pattern; the result is a tree of tuples."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.ignore_case = False
        self.depth = 0

    def parse(self) -> Node:
        node = self._alternatives()
        if self.position < len(self.pattern):
            raise ValueError("unexpected )")
        return node

    def _peek(self) -> str:
        return self.pattern[self.position] if self.position < len(self.pattern) else ""

    def _take(self) -> str:
        if self.position >= len(self.pattern):
            raise ValueError("pattern ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def _alternatives(self) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueError("groups are nested too deeply")
        ignore_case = self.ignore_case
        branches = [self._sequence()]
        while self._peek() == "|":
            self._take()
            branches.append(self._sequence())
        self.ignore_case = ignore_case
        self.depth -= 1
        return branches[0] if len(branches) == 1 else Alternatives(branches)

    def _sequence(self) -> Node:
        items: list[Node] = []
        repeated_up_to = -1
        while (char := self._peek()) and char not in "|)":
            mark = self.position
            if (bounds := self._quantifier()) is None:
                items.extend(self._atoms())
                continue
            if not items:
                raise ValueError("missing argument to repetition operator")
            if mark == repeated_up_to:
                raise ValueError(f"invalid nested repetition operator at {mark}")
            if self._peek() == "?":  # a lazy quantifier matches the same names
                self._take()
            items[-1] = Repeat(items[-1], *bounds)
            repeated_up_to = self.position
        return Sequence(items)

    def _quantifier(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char == "*":
            self._take()
            return 0, None
        if char == "+":
            self._take()
            return 1, None
        if char == "?":
            self._take()
            return 0, 1
        if char == "{":
            return self._counted()
        return None

    def _counted(self) -> tuple[int, int | None] | None:
        end = self.pattern.find("}", self.position)
        body = self.pattern[self.position + 1 : end] if end > 0 else ""
        low, comma, high = body.partition(",")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None  # RE2 reads such a brace as a literal
        self.position = end + 1
        least = int(low)
        most = least if not comma else (int(high) if high else None)
        if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
            raise ValueError("invalid repeat count")
        return least, most

    def _atoms(self) -> list[Node]:
        """What comes next: one thing, or none (flags), or several (a quotation), of which the last can be repeated."""
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return [Char(self._bracket())]
        if char == ".":
            return [Char(lambda c: c != "\n")]
        if char in "^$":
            return [Edge(char)]
        if char == "\\":
            return self._escape()
        return [Char(self._literal(char))]

    def _group(self) -> list[Node]:
        ignore_case = self.ignore_case
        if self._peek() == "?":
            self._take()
            if self._flags_only():
                return []
        node = self._alternatives()
        if self._peek() != ")":
            raise ValueError("missing closing )")
        self._take()
        self.ignore_case = ignore_case
        return [node]

    def _flags_only(self) -> bool:
        """What follows `(?`: a name, flags for the group, or flags for the rest. True in the last case."""
        if self._peek() == "P":
            self._take()
        if self._peek() == "<":
            name = self.pattern[self.position + 1 : self.pattern.find(">", self.position)]
            if not name.isidentifier():  # also refuses (?<= and (?<!
                raise ValueError("invalid or unsupported Perl syntax")
            self.position += len(name) + 2
            return False
        on = True
        while (char := self._take()) not in ":)":
            if char == "-":
                on = False
            elif char == "i":
                self.ignore_case = on
            elif char not in "smU":
                raise ValueError("invalid or unsupported Perl syntax")
        return char == ")"

    def _escape(self) -> list[Node]:
        char = self._take()
        if (sign := _EDGES.get(char)) is not None:
            return [Edge(sign)]
        if char == "Q":
            end = self.pattern.find("\\E", self.position)
            end = len(self.pattern) if end < 0 else end
            text = self.pattern[self.position : end]
            self.position = min(end + 2, len(self.pattern))
            return [Char(self._literal(c)) for c in text]
        return [Char(self._escaped_class(char) or self._literal(self._escaped_char(char)))]

    def _escaped_class(self, char: str) -> Matcher | None:
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return _negated(_CLASSES[char.lower()])
        return None

    def _escaped_char(self, char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            return self._hexadecimal()
        if char.isalnum():  # \1 among them: RE2 has no back-references
            raise ValueError(f"invalid escape sequence: \\{char}")
        return char

    def _hexadecimal(self) -> str:
        if self._peek() == "{":
            end = self.pattern.find("}", self.position)
            digits = self.pattern[self.position + 1 : end]
            self.position = end + 1
        else:
            digits = self.pattern[self.position : self.position + 2]
            self.position += 2
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise ValueError("invalid escape sequence: \\x") from None

    def _literal(self, char: str) -> Matcher:
        if self.ignore_case:
            folded = char.casefold()
            return lambda c: c.casefold() == folded
        return lambda c: c == char

    def _bracket(self) -> Matcher:
        negate = self._peek() == "^"
        if negate:
            self._take()
        parts: list[Matcher] = []
        while not (parts and self._peek() == "]"):
            if not self._peek():
                raise ValueError("missing closing ]")
            parts.append(self._bracket_part())
        self._take()
        fold = self.ignore_case

        def matches(c: str) -> bool:
            return any(part(c) or (fold and part(c.swapcase())) for part in parts)

        return _negated(matches) if negate else matches

    def _bracket_part(self) -> Matcher:
        char = self._take()
        if char == "[" and self._peek() == ":":
            end = self.pattern.find(":]", self.position)
            name = self.pattern[self.position + 1 : end]
            found = _POSIX.get(name.removeprefix("^"))
            if end < 0 or found is None:
                raise ValueError("invalid character class range")
            self.position = end + 2
            return _negated(found) if name.startswith("^") else found
        if char == "\\":
            escaped = self._take()
            if (shorthand := self._escaped_class(escaped)) is not None:
                return shorthand
            char = self._escaped_char(escaped)
        if self._peek() == "-" and self.pattern[self.position + 1 : self.position + 2] not in ("]", ""):
            self._take()
            high = self._take()
            if high == "\\":
                high = self._escaped_char(self._take())
            if high < char:
                raise ValueError("invalid character class range")
            low = char
            return lambda c: low <= c <= high
        return lambda c: c == char


_AFTER_WORD, _AT_START = -1, -2
"""Beside the states of a pattern that asks for words: the last character belongs to one; there is none yet."""
_NO_STATE = _State()


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _negated(matcher: Matcher) -> Matcher:
    return lambda c: not matcher(c)


def _compile(node: Node, automaton: _Automaton, after: int) -> int:
    """Add the states that match `node` and then go on at `after`; returns the state to start from."""
    if isinstance(node, Sequence):
        for item in reversed(node.items):
            after = _compile(item, automaton, after)
        return after
    if isinstance(node, Repeat):
        return _compile_repeat(node.node, node.least, node.most, automaton, after)
    start = automaton.new()
    state = automaton.states[start]
    if isinstance(node, Char):
        state.matcher, state.next = node.matcher, after
    elif isinstance(node, Edge):
        state.assertion, state.free = node.sign, [after]
    else:
        state.free = [_compile(branch, automaton, after) for branch in node.branches]
    return start


def _compile_repeat(inner: Node, least: int, most: int | None, automaton: _Automaton, after: int) -> int:
    if most is None:
        loop = automaton.new()
        automaton.states[loop].free = [_compile(inner, automaton, loop), after]
        start = loop
    else:
        start = after
        for _ in range(most - least):
            optional = automaton.new()
            automaton.states[optional].free = [_compile(inner, automaton, start), after]
            start = optional
    for _ in range(least):
        start = _compile(inner, automaton, start)
    return start


class TopicRegex:
    """A compiled pattern. `matches` is linear in the length of the name."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise ValueError(f"expression is longer than {PATTERN_LENGTH_MAX} characters")
        tree = _Parser(pattern).parse()
        automaton = _Automaton()
        self._accept = automaton.new()
        start = _compile(tree, automaton, self._accept)
        self._states = automaton.states
        self._knows_words = any(state.assertion in ("b", "B") for state in self._states)
        self._start = self._closure([start], at_start=True) | ({_AT_START} if self._knows_words else set())
        self._transitions: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        current = self._start
        for char in name:
            following = self._transitions.get((current, char))
            if following is None:
                following = self._step(current, char)
            if not following:
                return False
            current = following
        return self._accept in self._closure(current, at_start=not name, at_end=True, at_word=_AFTER_WORD in current)

    def _step(self, current: frozenset[int], char: str) -> frozenset[int]:
        known = current
        if self._knows_words:
            at_word = (_AFTER_WORD in current) != _is_word(char)
            known = self._closure(current, at_start=_AT_START in current, at_word=at_word)
        reached = []
        for index in known:
            state = self._states[index] if index >= 0 else _NO_STATE
            if state.matcher is not None and state.matcher(char):
                reached.append(state.next)
        if len(self._transitions) >= TRANSITIONS_MAX:
            self._transitions.clear()
        following = self._closure(reached)
        if self._knows_words and following and _is_word(char):
            following |= {_AFTER_WORD}
        self._transitions[current, char] = following
        return following

    def _closure(
        self, states: Iterable[int], *, at_start: bool = False, at_end: bool = False, at_word: bool | None = None
    ) -> frozenset[int]:
        """All states that can be reached without reading a character.

        States with `$` stay until the end is known, those with a word's edge until the next character is: `at_word`.
        """
        is_open = {"": True, "^": at_start, "$": at_end, "b": at_word is True, "B": at_word is False}
        seen = set(states)
        stack = [index for index in seen if index >= 0]
        while stack:
            state = self._states[stack.pop()]
            if not is_open[state.assertion]:
                continue
            for index in state.free:
                if index not in seen:
                    seen.add(index)
                    stack.append(index)
        return frozenset(seen)


@lru_cache(maxsize=256)
def compile_topic_regex(pattern: str) -> TopicRegex:
    """Raises InvalidRegularExpression when RE2 would refuse the pattern."""
    try:
        return TopicRegex(pattern)
    except (ValueError, RecursionError) as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        ) from None
