"""What a group that does not settle waits for, for `penstock group describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.cli.failures import Failure
from penstock.cli.monitoring import CONFIG, find_address, read_view
from penstock.client import group_waits
from penstock.client.group_waits import Wait

if TYPE_CHECKING:
    from penstock.client.admin import Admin, GroupDescription


async def waits_of(admin: Admin, description: GroupDescription, monitoring: str | None) -> list[Wait]:
    if group_waits.is_settled(description):
        return []
    address = monitoring or await find_address(admin, description.coordinator)
    return group_waits.waits_of(description, _shown(address, description.group_id) if address else None)


def _shown(address: str, group_id: str) -> list[object] | None:
    try:
        return cast("list[object]", read_view(address, "/groups", group=group_id))
    except Failure:
        return None


def explain(description: GroupDescription, waits: list[Wait]) -> list[str]:
    """Lines for people; none when the group is settled."""
    if group_waits.is_settled(description):
        return []
    lines = [f"Group '{description.group_id}' is {description.state}: it has not settled yet."]
    lines += [f"  {sentence}" for sentence in group_waits.explain(description, waits)]
    if not waits and description.type == "Classic":
        lines.append(f"  The broker can tell for which: penstock serve -c {CONFIG}=127.0.0.1:9644")
    return lines
