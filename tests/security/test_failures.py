"""The two kinds of failed authentications."""

from __future__ import annotations

from penstock.security.failures import AuthenticationFailed, MalformedToken


def test_who_catches_failed_authentications_catches_malformed_messages_too() -> None:
    assert issubclass(MalformedToken, AuthenticationFailed)
