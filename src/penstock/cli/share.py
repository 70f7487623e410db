"""`penstock share`: share groups (queues). Columns are those of Kafka's kafka-share-groups.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.group_parts import (
    UNKNOWN,
    assignment_text,
    check_groups,
    delete_groups,
    describe_groups,
    known_or_dash,
    show_new_offsets,
)
from penstock.cli.group_resets import chosen_partitions, milliseconds
from penstock.cli.monitoring import addresses_or_failure, monitoring_option
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option, pairs
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.redrive import redrive
from penstock.cli.running import with_admin
from penstock.cli.share_advice import advise_command
from penstock.cli.share_starts import RESET_CONFIG, Start, StartType, create_group, start_offsets
from penstock.cli.watching import again_and_again, watch_option

if TYPE_CHECKING:
    from penstock.client.admin import Admin, GroupDescription, ShareOffset
    from penstock.client.types import TopicPartition

_TYPES = ("share",)
_GROUP_COORDINATOR = 0

verbose_option = option("--verbose", is_flag=True, help="Show epochs too.")


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def share() -> None:
    """Create, inspect, reset and delete share groups (queues)."""


@share.command("create")
@click.argument("group", metavar="GROUP")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@option(
    "--from",
    "start",
    type=StartType(),
    metavar="WHERE",
    default="end",
    show_default=True,
    help="beginning, end, a time (2026-01-31T12:00), a duration before now (PT1H, P2D).",
)
@option("-c", "--set", "configs", metavar="NAME=VALUE", multiple=True, help="A group config by its name in Kafka.")
@bootstrap_option
@json_option
def create(
    group: str, topics: tuple[str, ...], start: Start, configs: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """Create a share group, and choose where it starts.

    Otherwise a group is created by its first consumer, at the end of its topics: records that are already
    there are not delivered. This command sets the group's start offsets in TOPICS, and share.auto.offset.reset for
    topics that its consumers subscribe to later. Without TOPICS only the latter is set.

    \b
      penstock share create workers jobs --from beginning
      penstock share create workers jobs -c share.delivery.count.limit=10
      penstock share create workers --from beginning
    """
    settings = pairs(configs, "-c")
    if RESET_CONFIG in settings:
        raise click.UsageError(f"{RESET_CONFIG} is what --from sets; leave out one of them.")
    if not topics and start.reset is None:
        raise click.UsageError("A time needs topics to look it up in: penstock share create GROUP TOPIC... --from TIME")
    starts = with_admin(bootstrap, lambda admin: create_group(admin, group, topics, start, settings))
    if as_json or starts:
        show_new_offsets(group, starts, executed=True, as_json=as_json)
    if not as_json and not starts:
        note(f"Share group {group} starts with its first consumer; {RESET_CONFIG} is {start.reset}.")


@share.command("list")
@option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state: Empty or Stable.")
@watch_option
@bootstrap_option
@json_option
def list_(states: tuple[str, ...], watch: float | None, bootstrap: str, as_json: bool) -> None:
    """List share groups."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: admin.list_groups(types=_TYPES, states=states))
        if as_json:
            print_json([{"group": group.group_id, "state": group.state} for group in found])
        elif found:
            print_table(["GROUP", "STATE"], [[group.group_id, group.state] for group in sorted(found)])
        else:
            note("There are no share groups. Create one: penstock share create GROUP TOPIC --from beginning")

    again_and_again(show, watch)


@share.command("describe")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@verbose_option
@watch_option
@bootstrap_option
@json_option
def describe(groups: tuple[str, ...], verbose: bool, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show state, coordinator and size of share groups."""

    def show() -> None:
        found, nodes = with_admin(bootstrap, lambda admin: _with_nodes(admin, groups))
        if as_json:
            print_json([_group_json(group) for group in found])
            return
        columns = ["GROUP", "COORDINATOR (ID)", "STATE"]
        columns += ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"] if verbose else []
        rows: list[list[Cell]] = []
        for group in found:
            epochs: list[Cell] = [group.epoch, group.assignment_epoch] if verbose else []
            node = nodes.get(group.coordinator, UNKNOWN)
            rows.append([group.group_id, node, group.state, *epochs, len(group.members)])
        print_table([*columns, "#MEMBERS"], rows)

    again_and_again(show, watch)


@share.command("members")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@verbose_option
@watch_option
@bootstrap_option
@json_option
def members(groups: tuple[str, ...], verbose: bool, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show the members of share groups and their partitions."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: _describe(admin, groups))
        if as_json:
            print_json([_group_json(group) for group in found])
            return
        rows: list[list[Cell]] = []
        for group in found:
            if not group.members:
                note(f"Share group '{group.group_id}' has no active members.")
            for member in group.members:
                epoch: list[Cell] = [member.epoch] if verbose else []
                rows.append(
                    [
                        group.group_id,
                        member.member_id,
                        member.host,
                        member.client_id,
                        len(member.assignment),
                        *epoch,
                        assignment_text(member.assignment),
                    ]
                )
        if rows:
            columns = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
            print_table([*columns, *(["MEMBER-EPOCH"] if verbose else []), "ASSIGNMENT"], rows)

    again_and_again(show, watch)


@share.command("offsets")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@verbose_option
@watch_option
@bootstrap_option
@json_option
def offsets(groups: tuple[str, ...], verbose: bool, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show the start offsets and the lag of share groups."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: _offsets(admin, groups))
        if as_json:
            print_json(
                [
                    {"group": group, "topic": tp.topic, "partition": tp.partition, **offset._asdict()}
                    for group, by_partition in found.items()
                    for tp, offset in by_partition.items()
                ]
            )
            return
        rows: list[list[Cell]] = []
        for group, by_partition in found.items():
            if not by_partition:
                note(f"Share group '{group}' has no offset information.")
            for tp, offset in sorted(by_partition.items()):
                epoch: list[Cell] = [known_or_dash(offset.leader_epoch)] if verbose else []
                rows.append(
                    [
                        group,
                        tp.topic,
                        tp.partition,
                        *epoch,
                        known_or_dash(offset.start_offset),
                        known_or_dash(offset.lag),
                    ]
                )
        if rows:
            columns = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "START-OFFSET", "LAG"]
            print_table(columns, rows)

    again_and_again(show, watch)


@share.command("reset-offsets")
@click.argument("group", metavar="GROUP")
@option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P]", help="A topic, or some partitions of it.")
@option("--all-topics", is_flag=True, help="All topics that the group has offsets for.")
@option("--to-earliest", is_flag=True, help="Begin with the oldest record.")
@option("--to-latest", is_flag=True, help="Begin with the next new record.")
@option("--to-datetime", metavar="TIME", help="Begin at a time, as 2026-08-01T12:00:00.")
@option("--to-offset", type=click.IntRange(0), help="Begin at an offset.")
@option("--execute", is_flag=True, help="Reset the offsets; without this, only show what would change.")
@bootstrap_option
@json_option
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    to_offset: int | None,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change where a share group without members starts. Records in flight are forgotten.

    \b
      penstock share reset-offsets workers --topic jobs --to-earliest
      penstock share reset-offsets workers --all-topics --to-datetime 2026-08-01T12:00:00 --execute
    """
    if bool(topics) == all_topics:
        raise click.UsageError("Say which topics: either --topic or --all-topics.")
    if [to_earliest, to_latest, to_datetime is not None, to_offset is not None].count(True) != 1:
        raise click.UsageError("Say where to: one of --to-earliest, --to-latest, --to-datetime and --to-offset.")
    spec = -2 if to_earliest else -1 if to_latest else milliseconds(to_datetime) if to_datetime else None

    async def work(admin: Admin) -> dict[TopicPartition, int]:
        if topics:
            partitions = await chosen_partitions(admin, topics)
        else:
            partitions = sorted((await _offsets(admin, (group,)))[group])
        if spec is None:
            found = dict.fromkeys(partitions, to_offset or 0)
        else:
            found = await start_offsets(admin, partitions, spec)
        if execute:
            await admin.alter_share_group_offsets(group, found)
        return found

    show_new_offsets(group, with_admin(bootstrap, work), executed=execute, as_json=as_json)


share.add_command(advise_command)


@share.command("delete-offsets")
@click.argument("group", metavar="GROUP")
@option("--topic", "topics", multiple=True, required=True, metavar="TOPIC", help="A topic whose offsets to delete.")
@bootstrap_option
def delete_offsets(group: str, topics: tuple[str, ...], bootstrap: str) -> None:
    """Delete the offsets and state that a share group without members has for topics."""
    with_admin(bootstrap, lambda admin: admin.delete_share_group_offsets(group, topics))
    rows: list[list[Cell]] = [[topic, "Successful"] for topic in topics]
    print_table(["TOPIC", "STATUS"], rows)


@share.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
def delete(groups: tuple[str, ...], bootstrap: str) -> None:
    """Delete share groups that have no members, with all their state."""
    delete_groups(bootstrap, groups, "share")


@share.command("inspect")
@click.argument("group", metavar="GROUP")
@monitoring_option
@watch_option
@bootstrap_option
@json_option
def inspect(group: str, monitoring: Sequence[str], watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show the window of each share-partition: every record in flight, its holder, time left and deliveries."""
    from penstock.cli.share_window import draw, read_windows

    addresses = monitoring or with_admin(bootstrap, lambda admin: addresses_or_failure(admin, bootstrap, "its windows"))

    def show() -> None:
        windows = [window for address in addresses for window in read_windows(address, group)]
        if as_json:
            print_json(windows)
        elif windows:
            for window in windows:
                draw(window)
        else:
            note(f"Share group {group!r} has nothing in flight: no consumer has fetched since the start.")

    again_and_again(show, watch)


share.add_command(redrive)


async def _with_nodes(admin: Admin, groups: tuple[str, ...]) -> tuple[list[GroupDescription], dict[int, str]]:
    found = await _describe(admin, groups)
    for group in found:
        group.coordinator = await admin.cluster.coordinator(_GROUP_COORDINATOR, group.group_id)
    cluster = await admin.describe_cluster()
    return found, {node.node_id: f"{node.host}:{node.port} ({node.node_id})" for node in cluster.nodes}


async def _describe(admin: Admin, groups: tuple[str, ...]) -> list[GroupDescription]:
    return await describe_groups(admin, groups, _TYPES, "share", "share")


async def _offsets(admin: Admin, groups: tuple[str, ...]) -> dict[str, dict[TopicPartition, ShareOffset]]:
    await check_groups(admin, groups, _TYPES, "share", "share")
    return {name: await admin.list_share_group_offsets(name) for name in groups}


def _group_json(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "consumer_id": member.member_id,
                "host": member.host,
                "client_id": member.client_id,
                "member_epoch": member.epoch,
                "assignment": [[tp.topic, tp.partition] for tp in sorted(member.assignment)],
            }
            for member in group.members
        ],
    }
