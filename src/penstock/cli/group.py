"""`penstock group`: consumer groups, classic and KIP-848. Columns are those of Kafka's kafka-consumer-groups.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure
from penstock.cli.group_parts import (
    UNKNOWN,
    assignment_text,
    delete_groups,
    describe_groups,
    known_or_dash,
    show_new_offsets,
)
from penstock.cli.group_resets import Reset, chosen_partitions, reset_from_options, targets_of
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.running import with_admin
from penstock.cli.watching import again_and_again, watch_option

if TYPE_CHECKING:
    from penstock.client.admin import Admin, GroupDescription
    from penstock.client.admin.groups import MemberDescription
    from penstock.client.group_waits import Wait
    from penstock.client.types import OffsetAndMetadata, TopicPartition

_TYPES = ("classic", "consumer")


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def group() -> None:
    """Inspect consumer groups, reset their offsets and delete them."""


@group.command("list")
@option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state, e.g. Stable or Empty.")
@watch_option
@bootstrap_option
@json_option
def list_(states: tuple[str, ...], watch: float | None, bootstrap: str, as_json: bool) -> None:
    """List consumer groups."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: admin.list_groups(types=_TYPES, states=states))
        if as_json:
            print_json([{"group": g.group_id, "type": g.type.lower(), "state": g.state} for g in found])
        elif found:
            rows: list[list[Cell]] = [[g.group_id, g.type.capitalize(), g.protocol_type, g.state] for g in found]
            print_table(["GROUP", "TYPE", "PROTOCOL", "STATE"], rows)
        else:
            note("There are no consumer groups. One begins when a consumer subscribes or commits under its group.id.")

    again_and_again(show, watch)


@group.command("describe")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@option(
    "--monitoring", metavar="HOST:PORT", help="The broker's penstock.metrics.listen.  [default: read from the broker]"
)
@watch_option
@bootstrap_option
@json_option
def describe(
    groups: tuple[str, ...], monitoring: str | None, watch: float | None, bootstrap: str, as_json: bool
) -> None:
    """Show the lag of consumer groups, who reads what, and what a stuck group waits for."""
    from penstock.cli.group_waits import explain, waits_of

    async def work(admin: Admin) -> list[tuple[GroupDescription, list[_Row], list[Wait]]]:
        found = []
        for description in await _describe(admin, groups):
            rows = await _rows(admin, description)
            found.append((description, rows, await waits_of(admin, description, monitoring)))
        return found

    def show() -> None:
        found = with_admin(bootstrap, work)
        if as_json:
            print_json([_json(description, rows, waits) for description, rows, waits in found])
            return
        for description, rows, waits in found:
            if not description.members:
                note(f"Consumer group '{description.group_id}' has no active members.")
            if rows:
                print_table(list(_COLUMNS), [row.cells(description.group_id) for row in rows])
            for line in explain(description, waits):
                note(line)

    again_and_again(show, watch)


@group.command("members")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@option("--verbose", is_flag=True, help="Show epochs and assignments too.")
@watch_option
@bootstrap_option
@json_option
def members(groups: tuple[str, ...], verbose: bool, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show the members of consumer groups and how many partitions each has."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: _describe(admin, groups))
        if as_json:
            print_json([_json(description, None, []) for description in found])
            return
        rows: list[list[Cell]] = []
        for description in found:
            if not description.members:
                note(f"Consumer group '{description.group_id}' has no active members.")
            for member in description.members:
                more: list[Cell] = []
                if verbose:
                    more = [
                        known_or_dash(description.epoch),
                        known_or_dash(member.epoch),
                        assignment_text(member.assignment) or UNKNOWN,
                        assignment_text(member.target) or UNKNOWN,
                    ]
                rows.append(
                    [
                        description.group_id,
                        member.member_id,
                        member.host,
                        member.client_id,
                        member.group_instance_id or UNKNOWN,
                        len(member.assignment),
                        *more,
                    ]
                )
        if rows:
            columns = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "INSTANCE-ID", "#PARTITIONS"]
            extra = ["GROUP-EPOCH", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"] if verbose else []
            print_table(columns + extra, rows)

    again_and_again(show, watch)


@group.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P]", help="A topic, or some partitions of it.")
@option("--all-topics", is_flag=True, help="All topics that the group has offsets for.")
@option("--to-earliest", is_flag=True, help="Back to the oldest record.")
@option("--to-latest", is_flag=True, help="Forward to the next new record.")
@option("--to-current", is_flag=True, help="The group's current position, committed again.")
@option("--to-offset", type=click.IntRange(0), help="To an offset.")
@option("--to-datetime", metavar="TIME", help="To a time, as 2026-08-01T12:00:00.")
@option("--by-duration", metavar="DURATION", help="Back by a time, as PT1H30M or P2D.")
@option("--shift-by", type=int, metavar="N", help="Forward by N records, or back if N is negative.")
@option("--execute", is_flag=True, help="Reset the offsets; without this, only show what would change.")
@bootstrap_option
@json_option
def reset_offsets(
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change the offsets from which a consumer group without members continues.

    \b
      penstock group reset-offsets billing --topic orders --to-earliest
      penstock group reset-offsets billing --all-topics --by-duration PT1H --execute
    """
    if bool(topics) == all_topics:
        raise click.UsageError("Say which topics: either --topic or --all-topics.")
    reset = reset_from_options(to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by)

    async def work(admin: Admin) -> dict[TopicPartition, int]:
        return await _reset(admin, group_id, topics, reset, execute)

    show_new_offsets(group_id, with_admin(bootstrap, work), executed=execute, as_json=as_json)


@group.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
def delete(groups: tuple[str, ...], bootstrap: str) -> None:
    """Delete consumer groups that have no members, with their offsets."""
    delete_groups(bootstrap, groups, "consumer")


async def _reset(
    admin: Admin, group_id: str, topics: tuple[str, ...], reset: Reset, execute: bool
) -> dict[TopicPartition, int]:
    from penstock.wire.errors import GroupIdNotFound

    try:
        description = await admin.describe_group(group_id)
    except GroupIdNotFound:
        description = None  # a group that is to begin with these offsets
    if description is not None and description.members:
        raise Failure(
            f"Group {group_id!r} has {len(description.members)} active members; offsets are reset without any.\n"
            f"  See them:           penstock group members {group_id}"
        )
    committed = await admin.list_group_offsets(group_id)
    partitions = await chosen_partitions(admin, topics) if topics else sorted(committed)
    targets = await targets_of(admin, partitions, committed, reset)
    if execute and targets:
        await admin.alter_group_offsets(group_id, targets)
    return targets


async def _describe(admin: Admin, groups: tuple[str, ...]) -> list[GroupDescription]:
    return await describe_groups(admin, groups, _TYPES, "consumer", "group")


# ---- rows ------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)


class _Row:
    """One partition that the group has an offset for, or that a member holds."""

    def __init__(
        self, tp: TopicPartition, offset: OffsetAndMetadata | None, end: int | None, member: MemberDescription | None
    ) -> None:
        self.tp = tp
        self.current = offset.offset if offset is not None and offset.offset >= 0 else None
        self.end = end
        self.lag = None if end is None or self.current is None else max(0, end - self.current)
        self.member = member

    def cells(self, group_id: str) -> list[Cell]:
        who: list[Cell] = [UNKNOWN] * 3
        if self.member is not None:
            who = [self.member.member_id, self.member.host, self.member.client_id]
        numbers: list[Cell] = [UNKNOWN if n is None else n for n in (self.current, self.end, self.lag)]
        return [group_id, self.tp.topic, self.tp.partition, *numbers, *who]


async def _rows(admin: Admin, description: GroupDescription) -> list[_Row]:
    from penstock.client.types import OffsetSpec, TopicPartition

    committed = await admin.list_group_offsets(description.group_id)
    owners = {tp: member for member in description.members for tp in member.assignment}
    existing = {
        TopicPartition(info.name, index)
        for info in await admin.list_topics(include_internal=True)
        for index in info.partitions
    }
    partitions = sorted(set(committed) | set(owners))
    ends = await admin.list_offsets(dict.fromkeys([p for p in partitions if p in existing], int(OffsetSpec.LATEST)))
    return [_Row(tp, committed.get(tp), ends[tp].offset if tp in ends else None, owners.get(tp)) for tp in partitions]


def _json(description: GroupDescription, rows: list[_Row] | None, waits: list[Wait]) -> dict[str, object]:
    fields: dict[str, object] = {
        "group": description.group_id,
        "type": description.type.lower(),
        "state": description.state,
        "assignor": description.assignor,
        "members": [
            {
                "consumer_id": member.member_id,
                "instance_id": member.group_instance_id,
                "host": member.host,
                "client_id": member.client_id,
                "epoch": member.epoch,
                "assignment": [[tp.topic, tp.partition] for tp in sorted(member.assignment)],
                "target": [[tp.topic, tp.partition] for tp in sorted(member.target)],
            }
            for member in description.members
        ],
    }
    if rows is not None:
        fields["waits_for"] = [wait._asdict() for wait in waits]
        fields["partitions"] = [
            {
                "topic": row.tp.topic,
                "partition": row.tp.partition,
                "current_offset": row.current,
                "log_end_offset": row.end,
                "lag": row.lag,
                "consumer_id": None if row.member is None else row.member.member_id,
            }
            for row in rows
        ]
    return fields
