"""Where share groups start: creates a group before its first consumer joins, so that it starts at the intended records.

A share group that is created by its first consumer starts at the end of its topics: it never gets earlier records. The
group config share.auto.offset.reset changes that for topics that the group has not seen yet. Setting start offsets for
a topic takes effect at once, and creates the group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from penstock.cli.config_changes import alter_configs
from penstock.cli.failures import Failure
from penstock.cli.group_resets import duration_ms
from penstock.cli.lookups import find_topic

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.types import TopicPartition

RESET_CONFIG = "share.auto.offset.reset"
_EARLIEST, _LATEST = -2, -1


class Start(NamedTuple):
    """Where a share group starts, in two forms."""

    timestamp_ms: int
    """For topics that are there: a time, or ListOffsets' numbers for the beginning and the end."""
    reset: str | None
    """For topics to come: a value of share.auto.offset.reset; None if it has none for this."""


class StartType(click.ParamType):  # type: ignore[type-arg]
    name = "start"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, Start):
            return value
        text = str(value).strip()
        if text in ("beginning", "earliest"):
            return Start(_EARLIEST, "earliest")
        if text in ("end", "latest"):
            return Start(_LATEST, "latest")
        age_ms = duration_ms(text)
        if age_ms is not None:
            return Start(int(time.time() * 1000) - age_ms, f"by_duration:{text}")
        try:
            return Start(int(datetime.fromisoformat(text).timestamp() * 1000), None)
        except ValueError:
            self.fail(
                f"{text!r} is none of: beginning, end, a time (2026-01-31T12:00), a duration before now (PT1H, P2D)",
                param,
                ctx,
            )


async def create_group(
    admin: Admin, group: str, topics: tuple[str, ...], start: Start, configs: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Create a share group that starts there in these topics; returns its start offsets."""
    from penstock.client.admin import ResourceType
    from penstock.client.types import TopicPartition

    for listed in await admin.list_groups():
        if listed.group_id == group:
            raise _exists_already(group, listed.type)
    partitions = [
        TopicPartition(name, number) for name in topics for number in sorted((await find_topic(admin, name)).partitions)
    ]
    starts = await start_offsets(admin, partitions, start.timestamp_ms)
    # A partition that is added after a point in time holds only records that are newer.
    await alter_configs(admin, ResourceType.GROUP, group, {RESET_CONFIG: start.reset or "earliest", **configs})
    if starts:
        await admin.alter_share_group_offsets(group, starts)
    return starts


async def start_offsets(admin: Admin, partitions: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
    """The first offset of each partition at or after a time; its end where there is none."""
    found = await admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    missing = [tp for tp in partitions if found[tp].offset < 0]
    ends = await admin.list_offsets(dict.fromkeys(missing, _LATEST)) if missing else {}
    return {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp].offset for tp in partitions}


def _exists_already(group: str, kind: str) -> Failure:
    if kind.lower() != "share":
        return Failure(f"{group!r} is the name of a {kind.lower() or 'consumer'} group. Choose another name.")
    return Failure(
        f"Share group {group!r} exists already.\n"
        f"  See it:             penstock share offsets {group}\n"
        f"  Start it elsewhere: penstock share reset-offsets {group} --all-topics --to-earliest"
    )
