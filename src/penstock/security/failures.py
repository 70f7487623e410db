"""Why an authentication fails, on either side of it."""

from __future__ import annotations


class AuthenticationFailed(Exception):
    """The other side did not prove who it is. The text holds no secret, and a broker may send it to its client."""


class MalformedToken(AuthenticationFailed):
    """What the other side sent is not a message of the mechanism. The text is for the log only."""
