"""`penstock share`: share groups (queues). Columns are those of Kafka's kafka-share-groups.sh."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure, nearest
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.running import with_admin
from penstock.cli.watching import again_and_again, watch_option

if TYPE_CHECKING:
    from penstock.client.admin import Admin, GroupDescription, ShareOffset
    from penstock.client.types import TopicPartition

_UNKNOWN = "-"
_GROUP_COORDINATOR = 0

verbose_option = option("--verbose", is_flag=True, help="Show epochs too.")


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def share() -> None:
    """Look at share groups (queues), reset and delete them."""


@share.command("list")
@option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state: Empty or Stable.")
@watch_option
@bootstrap_option
@json_option
def list_(states: tuple[str, ...], watch: float | None, bootstrap: str, as_json: bool) -> None:
    """List share groups."""

    def show() -> None:
        found = with_admin(bootstrap, lambda admin: admin.list_groups(types=["share"], states=states))
        if as_json:
            print_json([{"group": group.group_id, "state": group.state} for group in found])
        elif found:
            print_table(["GROUP", "STATE"], [[group.group_id, group.state] for group in sorted(found)])
        else:
            note("There are no share groups. One begins when a share consumer subscribes under its group.id.")

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
            where = nodes.get(group.coordinator, _UNKNOWN)
            rows.append([group.group_id, where, group.state, *epochs, len(group.members)])
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
                        _assignment(member.assignment),
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
    """Show where share groups stand: start offsets and lag."""

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
                epoch: list[Cell] = [_known(offset.leader_epoch)] if verbose else []
                rows.append([group, tp.topic, tp.partition, *epoch, _known(offset.start_offset), _known(offset.lag)])
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
@option("--execute", is_flag=True, help="Do it; without this, only show what would be done.")
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
    """Let a share group without members begin somewhere else. What was in flight is forgotten.

    \b
      penstock share reset-offsets workers --topic jobs --to-earliest
      penstock share reset-offsets workers --all-topics --to-datetime 2026-08-01T12:00:00 --execute
    """
    if bool(topics) == all_topics:
        raise click.UsageError("Say which topics: either --topic or --all-topics.")
    if [to_earliest, to_latest, to_datetime is not None, to_offset is not None].count(True) != 1:
        raise click.UsageError("Say where to: one of --to-earliest, --to-latest, --to-datetime and --to-offset.")
    spec = -2 if to_earliest else -1 if to_latest else _milliseconds(to_datetime) if to_datetime else None

    async def work(admin: Admin) -> dict[TopicPartition, int]:
        partitions = await _chosen_partitions(admin, group, topics)
        found = await _targets(admin, partitions, spec, to_offset)
        if execute:
            await admin.alter_share_group_offsets(group, found)
        return found

    targets = with_admin(bootstrap, work)
    if as_json:
        print_json(
            [{"group": group, "topic": t.topic, "partition": t.partition, "offset": targets[t]} for t in targets]
        )
    else:
        rows: list[list[Cell]] = [[group, tp.topic, tp.partition, targets[tp]] for tp in sorted(targets)]
        print_table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)
    if not execute:
        note("Nothing was changed. Add --execute to do it.")


@share.command("delete-offsets")
@click.argument("group", metavar="GROUP")
@option("--topic", "topics", multiple=True, required=True, metavar="TOPIC", help="A topic to forget.")
@bootstrap_option
def delete_offsets(group: str, topics: tuple[str, ...], bootstrap: str) -> None:
    """Let a share group without members forget topics."""
    with_admin(bootstrap, lambda admin: admin.delete_share_group_offsets(group, topics))
    rows: list[list[Cell]] = [[topic, "Successful"] for topic in topics]
    print_table(["TOPIC", "STATUS"], rows)


@share.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
def delete(groups: tuple[str, ...], bootstrap: str) -> None:
    """Delete share groups that have no members, with all their state."""
    outcome = with_admin(bootstrap, lambda admin: admin.delete_groups(groups))
    failures = [f"{group}: {error}" for group, error in outcome.items() if error is not None]
    done = [f"'{group}'" for group, error in outcome.items() if error is None]
    if done:
        note(f"Deletion of requested share groups ({', '.join(done)}) was successful.")
    if failures:
        raise Failure("Not deleted:\n  " + "\n  ".join(failures))


@share.command("inspect")
@click.argument("group", metavar="GROUP")
@option("--monitoring", metavar="HOST:PORT", help="The broker's penstock.metrics.listen; asked from it if left out.")
@watch_option
@bootstrap_option
@json_option
def inspect(group: str, monitoring: str | None, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Draw the in-flight window of each share-partition: every record, its state, holder, time left and deliveries."""
    from penstock.cli.monitoring import address_or_failure
    from penstock.cli.share_window import draw, read_windows

    address = monitoring or with_admin(bootstrap, lambda admin: address_or_failure(admin, bootstrap, "its windows"))

    def show() -> None:
        windows = read_windows(address, group)
        if as_json:
            print_json(windows)
        elif windows:
            for window in windows:
                draw(window)
        else:
            note(
                f"Share group {group!r} has nothing in flight on this broker: no consumer has fetched since it started."
            )

    again_and_again(show, watch)


async def _with_nodes(admin: Admin, groups: tuple[str, ...]) -> tuple[list[GroupDescription], dict[int, str]]:
    found = await _describe(admin, groups)
    for group in found:
        group.coordinator = await admin.cluster.coordinator(_GROUP_COORDINATOR, group.group_id)
    cluster = await admin.describe_cluster()
    return found, {node.node_id: f"{node.host}:{node.port} ({node.node_id})" for node in cluster.nodes}


async def _describe(admin: Admin, groups: tuple[str, ...]) -> list[GroupDescription]:
    found = []
    for name in groups:
        await _check_group(admin, name)
        found.append(await admin.describe_group(name))
    return found


async def _offsets(admin: Admin, groups: tuple[str, ...]) -> dict[str, dict[TopicPartition, ShareOffset]]:
    found = {}
    for name in groups:
        await _check_group(admin, name)
        found[name] = await admin.list_share_group_offsets(name)
    return found


async def _check_group(admin: Admin, name: str) -> None:
    known = [group.group_id for group in await admin.list_groups(types=["share"])]
    if name not in known:
        guess = nearest(name, known)
        lines = [f"There is no share group {name!r}."]
        if guess:
            lines.append(f"  Did you mean:       {guess}")
        lines.append("  See all of them:    penstock share list")
        raise Failure("\n".join(lines))


async def _chosen_partitions(admin: Admin, group: str, topics: tuple[str, ...]) -> list[TopicPartition]:
    from penstock.client.types import TopicPartition

    if not topics:
        await _check_group(admin, group)
        return sorted(await admin.list_share_group_offsets(group))
    chosen = []
    for text in topics:
        name, _, numbers = text.partition(":")
        try:
            wanted = [int(number) for number in numbers.split(",")] if numbers else None
        except ValueError:
            raise click.UsageError(f"--topic is {text!r}; it must look like jobs or jobs:0,1") from None
        info = await admin.describe_topic(name)
        chosen += [TopicPartition(name, number) for number in wanted or sorted(info.partitions)]
    return chosen


async def _targets(
    admin: Admin, partitions: list[TopicPartition], spec: int | None, offset: int | None
) -> dict[TopicPartition, int]:
    if offset is not None or spec is None:
        return dict.fromkeys(partitions, offset or 0)
    found = await admin.list_offsets(dict.fromkeys(partitions, spec))
    missing = [tp for tp in partitions if found[tp].offset < 0]
    ends = await admin.list_offsets(dict.fromkeys(missing, -1)) if missing else {}
    return {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp].offset for tp in partitions}


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"--to-datetime is {text!r}; it must look like 2026-08-01T12:00:00") from None


def _known(number: int) -> Cell:
    return _UNKNOWN if number < 0 else number


def _assignment(partitions: list[TopicPartition]) -> str:
    """As Kafka prints it: `jobs:0,1;mails:2`."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())


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
