"""PLAIN: one message, read as RFC 4616 and Kafka say."""

from __future__ import annotations

import pytest

from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.plain import PlainClient, parse


def test_a_server_reads_what_a_client_writes() -> None:
    login = parse(PlainClient("zoë", "pä=,ss").first())
    assert (login.user, login.password) == ("zoë", "pä=,ss")


def test_an_authorization_id_may_repeat_the_user_only() -> None:
    assert parse(b"alice\0alice\0secret").user == "alice"
    with pytest.raises(AuthenticationFailed, match="authorization id that is different from username"):
        parse(b"bob\0alice\0secret")


@pytest.mark.parametrize(
    ("token", "what"), [(b"\0\0secret", "username not specified"), (b"\0alice\0", "password not specified")]
)
def test_nothing_may_be_empty(token: bytes, what: str) -> None:
    with pytest.raises(AuthenticationFailed, match=what):
        parse(token)


@pytest.mark.parametrize("token", [b"", b"alice", b"\0alice", b"\0alice\0secret\0", b"\0\xff\0secret"])
def test_anything_but_three_parts_of_utf8_is_malformed(token: bytes) -> None:
    with pytest.raises(MalformedToken):
        parse(token)


def test_the_password_is_not_in_the_text_of_a_login() -> None:
    assert "secret" not in repr(parse(b"\0alice\0secret"))


def test_a_client_is_done_when_the_server_answers_nothing() -> None:
    client = PlainClient("alice", "secret")
    assert client.receive(b"") is None
    assert client.complete


def test_a_client_does_not_answer_a_challenge() -> None:
    with pytest.raises(AuthenticationFailed):
        PlainClient("alice", "secret").receive(b"what?")
