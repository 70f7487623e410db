"""Who sends a request to a coordinator, in which version of its API, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicView:
    """Which topics whoever sent a request may describe."""

    shows: Callable[[str], bool]
    rules_version: int = 0
    """Another number means that other rules decide."""


EVERY_TOPIC = TopicView(lambda name: True)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a command needs to know of its request besides the body."""

    now_ms: int
    api_version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    view: TopicView = EVERY_TOPIC
