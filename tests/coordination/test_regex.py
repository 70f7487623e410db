"""Regular-expression subscriptions: RE2's language, and never slow."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.regex import TopicRegex, compile_topic_regex
from penstock.wire.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("foo", ["foo"], ["fo", "fooo", "xfoo"]),
        ("foo*", ["fo", "foo", "fooooo"], ["f", "foox"]),
        ("foo.*", ["foo", "foo.bar"], ["fo"]),
        ("a|bc", ["a", "bc"], ["ac", "b", ""]),
        ("(a|b)+c?", ["a", "abab", "bc"], ["c", ""]),
        ("[a-c_.-]{2,3}", ["a.", "_-b"], ["a", "abcd", "ad"]),
        ("[^0-9]+", ["abc"], ["a1", ""]),
        (r"\d{4}-\w+", ["2024-x_1"], ["24-x", "2024-"]),
        (r"orders\.v\d", ["orders.v1"], ["ordersxv1"]),
        ("(?i)Foo", ["FOO", "foo"], ["fo"]),
        ("(?i:F)oo", ["Foo", "foo"], ["fOO"]),
        ("^foo$", ["foo"], ["foo2"]),
        ("(?P<name>a)(?:b)", ["ab"], ["a"]),
        ("[[:alpha:]]+[[:digit:]]", ["ab1"], ["1", "a"]),
        (r"\Qa.b\E.*", ["a.bc"], ["axb"]),
        ("", [""], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("x*?", ["", "xx"], ["y"]),
        ("(a?){3}", ["", "aaa"], ["aaaa"]),
        (r"[\]\-a]", ["]", "-", "a"], ["b"]),
        ("a$b|c", ["c"], ["ab", "a$b"]),
    ],
)
def test_matches_whole_names(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = TopicRegex(pattern)
    assert [name for name in yes if not regex.matches(name)] == []
    assert [name for name in no if regex.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[", "[a", "*", "a**", "a{2}{3}", r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)",
        r"\p", "[b-a]", "a{1001}", "a{3,2}", "x{1000}{2}", "\\", "(?z)", "(" * 200 + ")" * 200, "a" * 5_000,
        "((a{1000}){1000})",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        compile_topic_regex(pattern)


@given(st.from_regex(r"([ab]|[ab][*+?]|\([ab]\|[ab]+\)[*+?]?){0,8}", fullmatch=True), st.text("ab", max_size=12))
def test_agrees_with_pythons_re(pattern: str, name: str) -> None:
    assert TopicRegex(pattern).matches(name) == bool(re.fullmatch(pattern, name))


def test_patterns_that_drive_backtracking_engines_mad_are_linear() -> None:
    """The same match takes Python's re longer than the age of the universe."""
    started = time.process_time()
    assert not TopicRegex("(a+)+" * 5 + "b").matches("a" * 249)
    assert not TopicRegex("(a|a)*" * 10 + "c").matches("a" * 249)
    assert time.process_time() - started < 30
