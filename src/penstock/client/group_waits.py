"""Why a group does not settle: which member it waits for, what that member has to do, since when.

A Penstock broker reports it exactly (`/groups?group=ID` of `client.monitoring`). With any other broker it is derived
from the group's description: epochs and targets of a consumer group; of a classic group only that it is rebalancing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

if TYPE_CHECKING:
    from penstock.client.admin import GroupDescription

_SETTLED = ("Stable", "Empty", "Dead")
_BY_STATE = {
    "PreparingRebalance": [
        "Waiting until all members have joined again, at most for their longest rebalance timeout "
        "(max.poll.interval.ms of the client)."
    ],
    "CompletingRebalance": ["Waiting for the leader among its members to send the assignment."],
    "Assigning": ["Waiting for the coordinator to compute the assignment."],
}
"""What is known without knowing for whom."""


class Wait(NamedTuple):
    """One member that the group waits for."""

    member_id: str
    client_id: str
    host: str
    what: str
    for_ms: int | None = None
    left_ms: int | None = None


class _Row(TypedDict):
    """A wait as the broker shows it."""

    memberId: str
    clientId: str
    host: str
    what: str
    forMs: int | None
    leftMs: int | None


def is_settled(description: GroupDescription) -> bool:
    return description.state in _SETTLED


def waits_of(description: GroupDescription, shown: Iterable[object] | None) -> list[Wait]:
    """Whom the group waits for; `shown` is what its coordinator shows of it, None if it shows nothing."""
    if is_settled(description):
        return []
    if shown is None:
        return list(_worked_out(description))
    return [
        Wait(row["memberId"], row["clientId"], row["host"], row["what"], row["forMs"], row["leftMs"])
        for row in cast("Iterable[_Row]", shown)
    ]


def _worked_out(description: GroupDescription) -> Iterator[Wait]:
    for member in description.members:
        excess = set(member.assignment) - set(member.target)
        what = ""
        if description.type == "Consumer" and excess:
            what = f"to give up {len(excess)} partition{'s' if len(excess) > 1 else ''}"
        elif description.type == "Consumer" and 0 <= member.epoch < description.assignment_epoch:
            what = "to fetch its new assignment"
        if what:
            yield Wait(member.member_id, member.client_id, member.host, what)


def explain(description: GroupDescription, waits: list[Wait]) -> list[str]:
    """What the group waits for, one sentence each; none if it is settled."""
    if is_settled(description):
        return []
    return [_sentence(wait) for wait in waits] or _BY_STATE.get(description.state, [])


def _sentence(wait: Wait) -> str:
    who = wait.member_id
    if wait.host:
        who += f" ({wait.client_id or 'no client id'} at {wait.host.lstrip('/')})"
    words = f"Waiting for {who} {wait.what}"
    if wait.for_ms is not None:
        words += f", for {wait.for_ms / 1000:.0f} s so far"
    if wait.left_ms is not None:
        words += f"; it is removed in {wait.left_ms / 1000:.0f} s if it does not"
    return words + "."
