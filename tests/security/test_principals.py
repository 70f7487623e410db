"""Principals in Kafka's form."""

from __future__ import annotations

import pytest

from penstock.security.principals import ANONYMOUS, Principal, parse_principal, user


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a:b,O=c", "Group:ops", "User:*"])
def test_a_principal_is_read_and_written_alike(text: str) -> None:
    assert str(parse_principal(text)) == text


def test_only_the_first_colon_ends_the_kind() -> None:
    assert parse_principal("User:a:b") == Principal("User", "a:b")


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_a_text_without_kind_or_name_is_refused_in_kafkas_words(text: str) -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName but got"):
        parse_principal(text)


def test_nobody_is_the_user_anonymous() -> None:
    assert user("ANONYMOUS") == ANONYMOUS
    assert str(ANONYMOUS) == "User:ANONYMOUS"
