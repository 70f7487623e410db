"""The language of searches: what passes, what is refused, and that a screen never hides a hit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("re2")

from penstock.client.types import ConsumerRecord
from penstock.console.filters import Filter, FilterError, Record, containing, is_expression, parse

VALUE = b'{"user": {"name": "ada", "age": 36, "vip": true}, "tags": ["x", "y"], "note": "caf\\u00e9", "none": null}'


def record(
    value: bytes | None = VALUE,
    key: bytes | None = b"k-1",
    headers: Sequence[tuple[str, bytes | None]] = (("trace", b"t-9"), ("empty", None)),
) -> Record:
    return ConsumerRecord("orders", 3, 7, 1_785_585_600_000, 0, key, value, tuple(headers), 0, 0)


def may_hold(found: Filter, section: bytes) -> bool:
    return found.screen is None or found.screen(section)


@pytest.mark.parametrize(
    "expression",
    [
        'value contains "ada"',
        'key = "k-1"',
        'key matches "^k-\\d+$"',
        'header.trace = "t-9" and header["trace"] matches "t-[0-9]"',
        "header.trace exists and not header.empty exists",
        "header.empty = null",
        '$.user.name = "ada"',
        '$["user"]["age"] >= 36 and $.user.age < 37',
        "$.user.vip = true and $.none = null",
        '$.tags contains "y" and $.tags[0] = "x"',
        '$.note = "café"',
        '$.user.name matches "^a.a$"',
        "offset = 7 and partition = 3 and size > 10",
        'timestamp >= "2026-08-01T12:00:00" and timestamp < "2026-08-01T14:00:01+02:00"',
        'key = "no" or (not key = "no" and value != null)',
        "$.user exists and not $.nobody exists",
        '$.user.name != "bob"',
    ],
)
def test_a_record_passes(expression: str) -> None:
    found = parse(expression)
    assert found.passes(record())
    assert may_hold(found, VALUE + b"k-1" + b"trace" + b"t-9" + b"empty")


@pytest.mark.parametrize(
    "expression",
    [
        'value contains "bob"',
        "value = null",
        'key != "k-1"',
        'header.none != "x"',
        "$.user.vip = 1",
        '$.user.age = "36"',
        '$.user.name > 5 or $.tags[9] = "x"',
        '$.nobody != "x"',
        'timestamp > "2026-08-01T12:00:00Z"',
    ],
)
def test_a_record_does_not_pass(expression: str) -> None:
    assert not parse(expression).passes(record())


def test_a_value_that_is_no_json_has_no_paths() -> None:
    found = parse("$.a exists")
    for value in (None, b"", b"{", b'"a"', b"[" * 100_000 + b'"a"', b"\xff"):
        assert not found.passes(record(value))


def test_text_is_found_in_key_value_and_headers() -> None:
    for text in ("k-1", "ada", "trace", "t-9"):
        assert containing(text).passes(record())
    assert not containing("bob").passes(record())


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "ends where a field"),
        ("value", "ends where an operator"),
        ("value contains 5", "needs; put it in quotes"),
        ("__import__ = 1", "is no field"),
        ('value matches "("', "RE2"),
        ('value matches "(?=a)"', "RE2"),
        ('key = "a" key', "join tests"),
        ('(key = "a"', "')' is missing"),
        ("key ~ 3", "cannot be read"),
        ('offset = "x"', "is a number"),
        ('timestamp > "soon"', "is not a time"),
        ("(" * 60, "nested"),
        ("key = " + "x" * 3_000, "at most"),
        ("$.a < null", "only be compared"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_a_reason(expression: str, words: str) -> None:
    with pytest.raises(FilterError, match=words.replace("(", r"\(").replace(")", r"\)")):
        parse(expression)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('$.user.name = "ada"', True),
        ("$[0] exists", True),
        ('key matches "^k"', True),
        ("not (header.region exists)", True),
        ("offset>=5", True),
        ("$.n == 5", True),
        ("ada", False),
        ("$5.99", False),
        ("the key is under the mat", False),
        ("values = 5", False),
        ("", False),
    ],
)
def test_an_expression_is_told_from_text_by_how_it_begins(text: str, wanted: bool) -> None:
    assert is_expression(text) is wanted


def test_a_pattern_that_would_hang_others_ends() -> None:
    assert not parse('value matches "^(a+)+$"').passes(record(b"a" * 50_000 + b"!"))


def test_a_screen_passes_over_batches_without_what_is_looked_for() -> None:
    for expression in ('value contains "ada"', 'key = "ada"', '$.who = "ada"', 'value matches "a.a" and offset > 5'):
        assert not may_hold(parse(expression), b"nothing of it")
    assert parse('not value contains "ada"').screen is None
    assert parse('value contains "ada" or offset > 5').screen is None


def test_a_screen_passes_over_batches_whose_numbers_do_not_pass() -> None:
    for expression in ("$.n > 5", "$.a.n >= 6", "$.n = 6", "$.n = true", "$.n = null", "$.n < -1 and $.m exists"):
        assert not may_hold(
            parse(expression), b'{"a": {"n": 5, "m": 0}} {"n" :\n -0.5e0} {"n": "6"} {"n": [6], "o": 9}'
        )
    for value in (b"6", b"6.5", b"1e3", b"Infinity", b"12345678901234567890"):
        assert may_hold(parse("$.n > 5"), b'{"n": 1}{"n":' + value + b"}")
    assert may_hold(parse("$.n > 5"), b'{"\\u006e": 6}')
    assert parse("$.n > 5").passes(record(b'{"\\u006e": 6, "o": 1}'))
    assert parse("$.n != 5").screen is not None
    assert may_hold(parse("$.n != 5"), b'{"n": 6}')


SCALARS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())


@given(SCALARS, SCALARS, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), st.sampled_from((None, 1)), st.booleans())
def test_a_screen_hides_no_number(wanted: object, held: object, sign: str, indent: int | None, is_inside: bool) -> None:
    literal = json.dumps(wanted)
    if "n" in literal.lower().replace("null", "") or (sign not in ("=", "!=") and literal in ("true", "false", "null")):
        return  # not of the language
    value = json.dumps({"a": [{"n": 0}, {"n": held} if is_inside else held]}, indent=indent).encode()
    found = parse(f"$.a[1].n {sign} {literal}" if is_inside else f"$.a[1] {sign} {literal}")
    if found.passes(record(value)):
        assert may_hold(found, b"before" + value + b"after")


@given(st.text(max_size=30), st.text(max_size=8), st.booleans())
def test_a_screen_hides_no_hit(text: str, name: str, ascii_only: bool) -> None:
    value = json.dumps({name: text}, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    steps = name.replace("\\", "\\\\").replace('"', '\\"')
    literal = text.replace("\\", "\\\\").replace('"', '\\"')
    found = parse(f'$["{steps}"] = "{literal}"')
    if found.passes(record(value)):
        assert may_hold(found, b"before" + value + b"after")
