"""Who sends a request to a coordinator, in which version of its API, and when."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS_USER = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a command needs to know of its request besides the body."""

    now_ms: int
    api_version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    principal: str = f"User:{ANONYMOUS_USER}"
