"""Principals: who is on the other side of a connection, in Kafka's form `User:alice`."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"
"""The one kind of principal that Kafka's own mechanisms produce."""


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that was not authenticated: one on a plaintext listener, or over TLS without a certificate of its own."""


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """`User:alice`. Raises ValueError, in Kafka's words, for a text without a kind."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)
