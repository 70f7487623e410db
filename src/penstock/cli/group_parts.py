"""What `penstock group` and `penstock share` have in common: their tables, their resets, their failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import Failure, nearest
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin, GroupDescription
    from penstock.client.types import TopicPartition

UNKNOWN = "-"


async def describe_groups(
    admin: Admin, groups: Sequence[str], types: Sequence[str], kind: str, command: str
) -> list[GroupDescription]:
    await check_groups(admin, groups, types, kind, command)
    return [await admin.describe_group(name) for name in groups]


async def check_groups(admin: Admin, groups: Sequence[str], types: Sequence[str], kind: str, command: str) -> None:
    """Fail, with the nearest name, unless all of them exist and are of these types."""
    known = [listed.group_id for listed in await admin.list_groups(types=types)]
    for name in groups:
        if name not in known:
            guess = nearest(name, known)
            lines = [f"There is no {kind} group {name!r}."]
            if guess:
                lines.append(f"  Did you mean:       {guess}")
            lines.append(f"  See all of them:    penstock {command} list")
            raise Failure("\n".join(lines))


def show_new_offsets(group: str, targets: Mapping[TopicPartition, int], *, executed: bool, as_json: bool) -> None:
    """Where a reset takes, or would take, a group."""
    if as_json:
        print_json(
            [{"group": group, "topic": t.topic, "partition": t.partition, "offset": targets[t]} for t in targets]
        )
    else:
        rows: list[list[Cell]] = [[group, tp.topic, tp.partition, targets[tp]] for tp in sorted(targets)]
        print_table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)
    if not executed:
        note("Nothing was changed. Add --execute to do it.")


def delete_groups(bootstrap: str, groups: Sequence[str], kind: str) -> None:
    outcome = with_admin(bootstrap, lambda admin: admin.delete_groups(groups))
    failures = [f"{name}: {error}" for name, error in outcome.items() if error is not None]
    done = [f"'{name}'" for name, error in outcome.items() if error is None]
    if done:
        note(f"Deletion of requested {kind} groups ({', '.join(done)}) was successful.")
    if failures:
        raise Failure("Not deleted:\n  " + "\n  ".join(failures))


def known_or_dash(number: int) -> Cell:
    return UNKNOWN if number < 0 else number


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """As Kafka prints it: `orders:0,1;mails:2`."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())
