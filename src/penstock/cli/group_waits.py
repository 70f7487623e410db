"""Why a group does not settle: which member it waits for, what that member has to do, since when.

A Penstock broker with `penstock.metrics.listen` tells exactly. From any other broker the reason is worked out from what
the group's description shows: epochs and targets of a consumer group; of a classic group only that it is rebalancing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

from penstock.cli.failures import Failure
from penstock.cli.monitoring import CONFIG, find_address, read_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client.admin import Admin, GroupDescription

_SETTLED = ("Stable", "Empty", "Dead")


class Wait(NamedTuple):
    member_id: str
    client_id: str
    host: str
    what: str
    for_ms: int | None = None
    left_ms: int | None = None


class WaitRow(TypedDict):
    """A wait as the broker shows it."""

    memberId: str
    clientId: str
    host: str
    what: str
    forMs: int | None
    leftMs: int | None


async def waits_of(admin: Admin, description: GroupDescription, monitoring: str | None) -> list[Wait]:
    if description.state in _SETTLED:
        return []
    address = monitoring or await find_address(admin, description.coordinator)
    told = _read(address, description.group_id) if address else None
    return list(_worked_out(description)) if told is None else told


def _read(address: str, group_id: str) -> list[Wait] | None:
    try:
        rows = cast("list[WaitRow]", read_view(address, "/groups", group=group_id))
    except Failure:
        return None
    return [
        Wait(row["memberId"], row["clientId"], row["host"], row["what"], row["forMs"], row["leftMs"]) for row in rows
    ]


def _worked_out(description: GroupDescription) -> Iterator[Wait]:
    for member in description.members:
        excess = set(member.assignment) - set(member.target)
        what = ""
        if description.type == "Consumer" and excess:
            what = f"to give up {len(excess)} partition{'s' if len(excess) > 1 else ''}"
        elif description.type == "Consumer" and 0 <= member.epoch < description.assignment_epoch:
            what = "to ask for its new assignment"
        if what:
            yield Wait(member.member_id, member.client_id, member.host, what)


def explain(description: GroupDescription, waits: list[Wait]) -> list[str]:
    """Lines for people; none when the group is settled."""
    if description.state in _SETTLED:
        return []
    lines = [f"Group '{description.group_id}' is {description.state}: it has not settled yet."]
    for wait in waits:
        who = f"{wait.member_id} ({wait.client_id or 'no client id'} at {wait.host})" if wait.host else wait.member_id
        line = f"  Waits for {who} {wait.what}"
        if wait.for_ms is not None:
            line += f", since {wait.for_ms / 1000:.0f} s"
        if wait.left_ms is not None:
            line += f"; it is removed in {wait.left_ms / 1000:.0f} s if it does not"
        lines.append(line + ".")
    if not waits and description.type == "Classic":
        lines.append(
            "  It waits until all members have joined again, at most their longest rebalance timeout "
            "(max.poll.interval.ms of the client).\n"
            f"  The broker can tell which: penstock serve -c {CONFIG}=127.0.0.1:9644"
        )
    return lines
