"""PLAIN (RFC 4616): one message with the name and the password, `[authzid] NUL user NUL password`.

The password is readable by whoever reads the connection, so PLAIN belongs on encrypted ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.security.failures import AuthenticationFailed, MalformedToken

MECHANISM = "PLAIN"


@dataclass(frozen=True, slots=True)
class PlainLogin:
    user: str
    password: str = field(repr=False)


def parse(token: bytes) -> PlainLogin:
    """Who the client says it is. Raises AuthenticationFailed, in Kafka's words."""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError as error:
        raise MalformedToken("the message of PLAIN is not UTF-8") from error
    if len(parts) != 3:
        raise MalformedToken(f"the message of PLAIN has {len(parts)} parts in place of 3")
    authzid, user, password = parts
    if not user:
        raise AuthenticationFailed("Authentication failed: username not specified")
    if not password:
        raise AuthenticationFailed("Authentication failed: password not specified")
    if authzid not in ("", user):
        raise AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return PlainLogin(user, password)


class PlainClient:
    """The client's side of one exchange."""

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()
        self.complete = False

    def first(self) -> bytes:
        return self._message

    def receive(self, challenge: bytes) -> bytes | None:
        """None: the server has nothing to ask."""
        if challenge:
            raise AuthenticationFailed("the server answers PLAIN with a challenge, and there is none in it")
        self.complete = True
        return None
