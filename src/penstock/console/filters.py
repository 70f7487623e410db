"""What a search looks for: a closed little language, of which nothing is ever evaluated as code.

::

    expression = test { "and" | "or" test }, with "not" and parentheses; "and" binds tighter than "or"
    test       = field operator literal | field "exists"
    field      = key | value | header.NAME | header["NAME"] | $.path | offset | partition | timestamp | size
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "matches"
    literal    = "text" | 'text' | a number | true | false | null
    path       = $ { .name | ["name"] | [number] }, into a value that is JSON

`matches` takes a regular expression of RE2, within a limit of time (`patterns`), so that no pattern can hang the
console. Nearly all records of a search are no hits. So beside the test of a record every expression has a *screen*: a
cheap look at the bytes of a whole batch, which says no only if none of its records can pass.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from penstock.client.types import ConsumerRecord
from penstock.console.moments import MalformedMoment, milliseconds
from penstock.console.patterns import Clock, MalformedPattern, Pattern

Record: TypeAlias = ConsumerRecord[bytes, bytes]
Literal: TypeAlias = str | int | float | bool | None
Operand: TypeAlias = Literal | Pattern
Test: TypeAlias = Callable[["Subject"], bool]
Screen: TypeAlias = Callable[[bytes], bool]

MAX_LENGTH = 2_000
_MAX_DEPTH = 40
_MAX_JSON_BYTES = 8 << 20
_MISSING = object()

_TOKEN = re.compile(
    r"""\s*(?: (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
             | (?P<path>\$(?:\.[\w\-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*)
             | (?P<header>header(?:\.[\w.\-]+|\["(?:[^"\\]|\\.)*"\]))
             | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
             | (?P<word>[A-Za-z_]+)
             | (?P<sign>!=|<=|>=|[=<>()])
         )""",
    re.VERBOSE,
)
_EXPRESSION = re.compile(
    r"""[\s(]*(?:not[\s(]+)*
        (?: \$[.\[]
          | (?:key|value|header[.\[]\S+|offset|partition|timestamp|size)\s*(?:[=<>]|!=|(?:contains|matches|exists)\b)
        )""",
    re.VERBOSE,
)
_STEP = re.compile(r"""\.([\w\-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""")
_PLAIN = re.compile(rb"[ !#-.0-\[\]-~]+")  # what JSON writes in one way only, but for \u escapes
_SCALAR = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*(-?(?:\d[\d.eE+\-]*|Infinity)|NaN|true|false|null)")
_WORDS = {b"true": True, b"false": False, b"null": None}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = ("=", "!=", *_ORDER, "contains", "matches")
_NUMBERS: dict[str, Callable[[Record], int]] = {
    "offset": lambda record: record.offset,
    "partition": lambda record: record.partition,
    "timestamp": lambda record: record.timestamp,
    "size": lambda record: len(record.key or b"") + len(record.value or b""),
}


class FilterError(ValueError):
    """The filter cannot be understood; the text says where and why."""


class Subject:
    """A record under test. Its value is parsed as JSON once, when a test wants it."""

    __slots__ = ("_parsed", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self._parsed: object = self

    def json(self) -> object:
        if self._parsed is self:
            value = self.record.value
            try:
                if value is None or len(value) > _MAX_JSON_BYTES:
                    self._parsed = _MISSING
                else:
                    self._parsed = json.loads(value)
            except (ValueError, RecursionError):
                self._parsed = _MISSING
        return self._parsed


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record must pass. Without a screen every batch has to be decoded."""

    test: Test
    screen: Screen | None = None
    clock: Clock | None = None
    """Limits what regular expressions may take, where the filter has any."""

    def passes(self, record: Record) -> bool:
        return self.test(Subject(record))


def containing(text: str) -> Filter:
    """Records with a text in key, value or a header."""
    needle = text.encode()

    def test(subject: Subject) -> bool:
        record = subject.record
        return (
            (record.value is not None and needle in record.value)
            or (record.key is not None and needle in record.key)
            or any(needle in name.encode() or (held is not None and needle in held) for name, held in record.headers)
        )

    return Filter(test, _holds(needle))


def is_expression(text: str) -> bool:
    """Whether a search is meant as an expression: it begins with a field that is tested, and no other text does."""
    return _EXPRESSION.match(text) is not None


def parse(text: str) -> Filter:
    """The filter that an expression stands for."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"The expression has {len(text):,} characters; at most {MAX_LENGTH:,} are taken.")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._depth = 0
        self._clock: Clock | None = None
        pos, end = 0, len(text.rstrip())
        while pos < end:
            found = _TOKEN.match(text, pos)
            if found is None or found.lastgroup is None:
                raise self._error("cannot be read", pos)
            self._tokens.append((found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            pos = found.end()

    def whole(self) -> Filter:
        found = self._either()
        if self._at < len(self._tokens):
            raise self._error("is not expected here; join tests with 'and' or 'or'", self._tokens[self._at][2])
        return replace(found, clock=self._clock)

    def _either(self) -> Filter:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FilterError(f"The expression is nested more than {_MAX_DEPTH} deep.")
        found = [self._both()]
        while self._take("or"):
            found.append(self._both())
        self._depth -= 1
        if len(found) == 1:
            return found[0]
        tests, screens = [part.test for part in found], [part.screen for part in found]
        known = [screen for screen in screens if screen is not None]
        screen = None if len(known) < len(screens) else lambda data: any(each(data) for each in known)
        return Filter(lambda subject: any(test(subject) for test in tests), screen)

    def _both(self) -> Filter:
        found = [self._one()]
        while self._take("and"):
            found.append(self._one())
        if len(found) == 1:
            return found[0]
        tests, known = [part.test for part in found], [part.screen for part in found if part.screen is not None]
        screen = (lambda data: all(each(data) for each in known)) if known else None
        return Filter(lambda subject: all(test(subject) for test in tests), screen)

    def _one(self) -> Filter:
        negated = False
        while self._take("not"):
            negated = not negated
        if self._take("("):
            found = self._either()
            if not self._take(")"):
                raise self._error("a ')' is missing", self._place())
        else:
            found = self._test()
        if not negated:
            return found
        test = found.test
        return Filter(lambda subject: not test(subject))

    def _test(self) -> Filter:
        kind, word, place = self._next("a field")
        if kind not in ("path", "header") and (kind != "word" or word not in ("key", "value", *_NUMBERS)):
            raise self._error("is no field; use key, value, header.NAME, $.path, offset, partition or timestamp", place)
        if self._take("exists"):
            return _existing(kind, word)
        sign_kind, sign, sign_place = self._next("an operator")
        if sign_kind not in ("sign", "word") or sign not in _OPERATORS:
            raise self._error(f"is no operator; use one of {', '.join(_OPERATORS)}, exists", sign_place)
        literal_kind, literal, literal_place = self._next("a value")
        value = self._literal(literal_kind, literal, literal_place)
        if sign in ("contains", "matches") and not isinstance(value, str):
            raise self._error(f"is no text, which {sign} needs; put it in quotes", literal_place)
        try:
            operand = self._pattern(value) if sign == "matches" and isinstance(value, str) else value
            if kind == "path":
                return _json_test(_steps(word), sign, operand)
            if word in _NUMBERS:
                return _number_test(word, sign, operand)
            return _bytes_test(word, sign, operand)
        except FilterError as error:
            raise self._error(str(error), literal_place) from None

    def _literal(self, kind: str, text: str, place: int) -> Literal:
        if kind == "text":
            return _unquoted(text)
        if kind == "number":
            return float(text) if re.search(r"[.eE]", text) else int(text)
        if kind == "word" and text in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[text]
        raise self._error("is no value; put text in quotes", place)

    def _pattern(self, text: str) -> Pattern:
        self._clock = self._clock or Clock()
        try:
            return Pattern(text, self._clock)
        except MalformedPattern as error:
            raise FilterError(f"is no regular expression of RE2: {error}") from None

    def _take(self, word: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        kind, found, _ = self._tokens[self._at]
        if kind not in ("word", "sign") or found.lower() != word:
            return False
        self._at += 1
        return True

    def _next(self, what: str) -> tuple[str, str, int]:
        if self._at >= len(self._tokens):
            raise FilterError(f"The expression ends where {what} is expected.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _place(self) -> int:
        return self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)

    def _error(self, words: str, place: int) -> FilterError:
        near = self._text[place : place + 20].strip()
        return FilterError(f"At character {place + 1}: {f'{near!r} ' if near else ''}{words}.")


# Tests of keys, values and headers


def _getter(word: str) -> Callable[[Record], object]:
    """What a field holds: bytes, None where it is null, _MISSING where a record has no such header."""
    if word == "key":
        return lambda record: record.key
    if word == "value":
        return lambda record: record.value
    name = _header_name(word)

    def of_header(record: Record) -> object:
        for held, value in record.headers:
            if held == name:
                return value
        return _MISSING

    return of_header


def _existing(kind: str, word: str) -> Filter:
    if kind == "path":
        steps = _steps(word)
        return Filter(lambda subject: _follow(subject.json(), steps) is not _MISSING, _json_screen(steps, None))
    if word in _NUMBERS:
        return Filter(lambda subject: True)
    get = _getter(word)
    screen = _holds(_header_name(word).encode()) if kind == "header" else None
    return Filter(lambda subject: get(subject.record) not in (None, _MISSING), screen)


def _bytes_test(word: str, sign: str, value: Operand) -> Filter:
    get = _getter(word)
    if isinstance(value, Pattern):
        inner = value.without_anchors()
        screen = None if inner is None else inner.may_be_in
        return Filter(lambda s: isinstance(held := get(s.record), bytes) and value.is_in(held), screen)
    if value is None:
        if sign not in ("=", "!="):
            raise FilterError("can only be compared by = and !=")
        if sign == "=":
            return Filter(lambda subject: get(subject.record) is None)
        return Filter(lambda subject: isinstance(get(subject.record), bytes))
    needle = (json.dumps(value) if isinstance(value, bool) else str(value)).encode()
    if sign == "contains":
        return Filter(lambda s: isinstance(held := get(s.record), bytes) and needle in held, _holds(needle))
    if sign == "=":
        return Filter(lambda subject: get(subject.record) == needle, _holds(needle))
    if sign == "!=":
        return Filter(lambda subject: get(subject.record) not in (needle, _MISSING))
    compare = _ORDER[sign]
    if isinstance(value, str):
        return Filter(lambda s: isinstance(held := get(s.record), bytes) and compare(held, needle))

    def as_number(subject: Subject) -> bool:
        held = get(subject.record)
        try:
            return isinstance(held, bytes) and len(held) < 400 and compare(float(held), value)
        except ValueError:
            return False

    return Filter(as_number)


def _holds(needle: bytes) -> Screen | None:
    return (lambda data: needle in data) if needle else None


def _number_test(word: str, sign: str, value: Operand) -> Filter:
    get = _NUMBERS[word]
    if isinstance(value, str) and word == "timestamp" and sign != "contains" and sign != "matches":
        try:
            value = milliseconds(value)
        except MalformedMoment as error:
            raise FilterError(str(error)) from None
    if isinstance(value, str | bool | Pattern) or value is None or sign == "contains":
        raise FilterError(f"cannot be compared with {word}, which is a number")
    if sign in ("=", "!="):
        same = sign == "="
        return Filter(lambda subject: (get(subject.record) == value) is same)
    compare = _ORDER[sign]
    return Filter(lambda subject: compare(get(subject.record), value))


# Tests of values that are JSON


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for name, number, quoted in _STEP.findall(path):
        steps.append(int(number) if number else _unquoted(quoted) if quoted else name)
    return steps


def _follow(found: object, steps: list[str | int]) -> object:
    for step in steps:
        if isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        elif isinstance(found, dict):
            found = found.get(step, _MISSING)
        else:
            return _MISSING
    return found


def _json_test(steps: list[str | int], sign: str, value: Operand) -> Filter:
    check = _json_check(sign, value)
    names = _json_screen(steps, value if sign == "=" and not isinstance(value, Pattern) else None)
    scalars = _scalar_screen(steps, sign, value)
    screen = names if names is None or scalars is None else (lambda data: names(data) and scalars(data))

    def test(subject: Subject) -> bool:
        raw = subject.record.value
        if raw is None or (screen is not None and not screen(raw)):
            return False
        return check(_follow(subject.json(), steps))

    return Filter(test, screen)


def _json_check(sign: str, value: Operand) -> Callable[[object], bool]:
    if isinstance(value, Pattern):
        return lambda found: isinstance(found, str) and value.is_in(found.encode(errors="replace"))
    if sign == "contains":
        return lambda found: isinstance(found, str | list) and value in found
    if sign == "=":
        return lambda found: _same(found, value)
    if sign == "!=":
        return lambda found: found is not _MISSING and not _same(found, value)
    if isinstance(value, bool) or value is None:
        raise FilterError("can only be compared by = and !=")
    compare, kinds = _ORDER[sign], (str,) if isinstance(value, str) else (int, float)
    return lambda found: isinstance(found, kinds) and not isinstance(found, bool) and compare(found, value)


def _same(found: object, value: Literal) -> bool:
    return isinstance(found, bool) == isinstance(value, bool) and found == value


def _scalar_screen(steps: list[str | int], sign: str, value: Operand) -> Screen | None:
    """Whether the name at the end of a path has, somewhere in a JSON text, a number, true, false or null that passes.

    So that not every record has to be parsed in which there is that name.
    """
    name = steps[-1] if steps else None
    if not isinstance(name, str) or not _PLAIN.fullmatch(name.encode()) or isinstance(value, str | Pattern):
        return None
    if sign not in ("=", *_ORDER):
        return None
    needle, after = f'"{name}"'.encode(), len(name.encode()) + 2
    check = _json_check(sign, value)

    def may_pass(data: bytes) -> bool:
        at = data.find(needle)
        while at >= 0:
            found = _SCALAR.match(data, at + after)
            if found is not None and ((scalar := _scalar(found[1])) is _MISSING or check(scalar)):
                return True
            at = data.find(needle, at + after)
        return b"\\u" in data

    return may_pass


def _scalar(text: bytes) -> object:
    """A number, a truth or a null of a JSON text; _MISSING for what only a parser can tell."""
    for kind in (int, float):
        try:
            return _WORDS[text] if text in _WORDS else kind(text)
        except ValueError:
            continue
    return _MISSING


def _json_screen(steps: list[str | int], value: Literal) -> Screen | None:
    """Bytes that a JSON text must hold for a path, and for the text at its end. With a \\u escape anything may be."""
    words = [step for step in steps if isinstance(step, str)] + ([value] if isinstance(value, str) else [])
    needles = [max(runs, key=len) for word in words if (runs := _PLAIN.findall(word.encode()))]
    if not needles:
        return None
    needles.sort(key=len, reverse=True)
    return lambda data: all(needle in data for needle in needles) or b"\\u" in data


# Texts


def _header_name(word: str) -> str:
    return _unquoted(word[7:-1]) if word[6] == "[" else word[7:]


def _unquoted(text: str) -> str:
    """The text between quotes. A backslash before anything else stays, so that "\\d" is a pattern's \\d."""
    return re.sub(
        r"\\([\\\"'ntr])", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text[1:-1]
    )
