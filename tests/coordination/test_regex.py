"""Regular-expression subscriptions: RE2's language, and never slow."""

from __future__ import annotations

import re
import time

import pytest
import re2
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
        (r"\Aa\z|\Ab.*", ["a", "bc"], ["ab"]),
        (r"\x61\x{62}", ["ab"], ["a", "61"]),
        (r"\Qab\E+", ["ab", "abb"], ["a", "abab"]),
        (r"\Qa.", ["a."], ["ab"]),
        (r"\bdev\b.*", ["dev", "dev.x"], ["devx", "xdev"]),
        (r"v\B\d|v\B", ["v1"], ["v"]),
        ("a(?i)b(?-i)c", ["abc", "aBc"], ["Abc", "abC"]),
        ("((?i)a)b", ["Ab"], ["AB"]),
        ("(?i)[a-c]", ["B"], ["d"]),
        ("[A-C]", ["B"], ["b"]),
        (r"\D\W", ["a."], ["1.", "aa"]),
        ("(?sm)a(?U)b", ["ab"], ["a"]),
        ("a{1000}", ["a" * 1000], ["a" * 999]),
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
        "((a{1000}){1000})", "{2}", "a|+", "(?i)*", "(?P<1>a)", "(?<n", "[[:nope:]]", r"\x{", r"\xg1", "(?i", "a**?",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        compile_topic_regex(pattern)


_TOKENS = (
    *"abA1.-_|()*+?[]{}^$",
    *("(?:", "(?i)", "(?i:", "(?-i)", "(?P<n>", "(?s)", "*?", "{2}", "{1,2}", "{1,}", "{0}", "{,2}", "(?", "{a}"),
    *("[^a]", "[a-b]", "[]a]", "[a-]", "[[:alpha:]]", "[^[:digit:]]", "[[:^upper:]]", r"[\d-]", r"[a\-b]", r"[a-\x62]"),
    *(r"\d", r"\W", r"\s", r"\.", r"\x61", r"\x{62}", r"\A", r"\z", r"\b", r"\B", r"\Qa.b\E", r"\Q", r"\E", r"\1"),
)


@given(st.lists(st.sampled_from(_TOKENS), max_size=8).map("".join), st.lists(st.text("abAB1.-_", max_size=5)))
def test_agrees_with_re2(pattern: str, names: list[str]) -> None:
    """With RE2 itself: what it refuses, and what it matches."""
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        theirs = re2.compile(pattern, options=quiet)
    except re2.error:
        with pytest.raises(InvalidRegularExpression):
            compile_topic_regex(pattern)
        return
    ours = compile_topic_regex(pattern)
    assert [ours.matches(name) for name in names] == [theirs.fullmatch(name) is not None for name in names]


def test_the_states_of_a_pattern_are_bounded() -> None:
    with pytest.raises(InvalidRegularExpression, match="too large"):
        compile_topic_regex("(a{200}){200}")


def test_kept_transitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.coordination.regex.TRANSITIONS_MAX", 3)
    regex = TopicRegex("[a-z]+")
    assert all(regex.matches(letter * 2) for letter in "abcdefg")
    assert len(regex._transitions) <= 3


@given(st.from_regex(r"([ab]|[ab][*+?]|\([ab]\|[ab]+\)[*+?]?){0,8}", fullmatch=True), st.text("ab", max_size=12))
def test_agrees_with_pythons_re(pattern: str, name: str) -> None:
    assert TopicRegex(pattern).matches(name) == bool(re.fullmatch(pattern, name))


def test_patterns_that_drive_backtracking_engines_mad_are_linear() -> None:
    """The same match takes Python's re longer than the age of the universe."""
    started = time.process_time()
    assert not TopicRegex("(a+)+" * 5 + "b").matches("a" * 249)
    assert not TopicRegex("(a|a)*" * 10 + "c").matches("a" * 249)
    assert time.process_time() - started < 30
