"""Why groups rebalanced: who joined, left or was given up, and when, for people who look at a group that is restless.

The protocol shows a group as it is now. What happened to it is nowhere written: in the records of `__consumer_offsets`
members come and go, and none says why. So the coordinator notes it where it decides it. Of each group the last events
are kept, and of all groups together so many; beyond that the group that was quiet for longest is forgotten first. A
note is made with the command, whose records may still fail to be written: it is a story for people, and no state.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import NamedTuple, Protocol

EVENTS_PER_GROUP = 50
EVENTS_MAX = 10_000
_DETAIL_LENGTH_MAX = 200


class Happened(StrEnum):
    JOINED = "joined"
    RETURNED = "returned"
    """A static member came back under a new member id."""
    REJOINED = "rejoined"
    """A member of a classic group asked for a rebalance: its subscription changed, or it is the leader."""
    RESUBSCRIBED = "resubscribed"
    LEFT = "left"
    AWAY = "away"
    """A static member left for a while; its partitions are reserved."""
    SESSION_TIMED_OUT = "session timed out"
    REBALANCE_TIMED_OUT = "rebalance timed out"
    """A member did not join, sync or give up partitions within its rebalance timeout."""
    TOPICS_CHANGED = "topics changed"
    """Partitions of subscribed topics came or went."""
    PROTOCOL_CHANGED = "protocol changed"
    REBALANCE_BEGAN = "rebalance began"
    ASSIGNED = "assigned"


class Member(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class Event(NamedTuple):
    at_ms: int
    happened: Happened
    epoch: int
    """The generation or group epoch that this led to, or happened in."""
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    detail: str = ""


class Timeline:
    def __init__(self, events_per_group: int = EVENTS_PER_GROUP, events_max: int = EVENTS_MAX) -> None:
        self._events_per_group = events_per_group
        self._events_max = events_max
        self._events: dict[str, deque[Event]] = {}  # the group that was quiet for longest comes first
        self._count = 0

    def note(
        self, group_id: str, at_ms: int, happened: Happened, epoch: int, member: Member | None = None, detail: str = ""
    ) -> None:
        event = Event(at_ms, happened, epoch, detail=detail[:_DETAIL_LENGTH_MAX])
        if member is not None:
            event = event._replace(
                member_id=member.member_id,
                instance_id=getattr(member, "instance_id", None),  # members of share groups are never static
                client_id=member.client_id,
                client_host=member.client_host,
            )
        events = self._events.pop(group_id, None)
        if events is None:
            events = deque(maxlen=self._events_per_group)
        self._count += len(events) < self._events_per_group
        events.append(event)
        self._events[group_id] = events
        while self._count > self._events_max:
            quiet = next(iter(self._events))
            self._events[quiet].popleft()
            self._count -= 1
            if not self._events[quiet]:
                del self._events[quiet]

    def of(self, group_id: str) -> list[Event]:
        """What happened to a group, the latest last."""
        return list(self._events.get(group_id, ()))

    def group_ids(self) -> list[str]:
        return list(self._events)
