"""The targets of `penstock group reset-offsets`, named as in kafka-consumer-groups.sh."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from penstock.cli.lookups import find_topic

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.types import OffsetAndMetadata, TopicPartition

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class Reset(NamedTuple):
    kind: Literal["earliest", "latest", "current", "offset", "time", "shift"]
    number: int = 0


def reset_from_options(
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
) -> Reset:
    """The one place that was named; a usage error for none or several."""
    found: list[Reset] = []
    if to_earliest:
        found.append(Reset("earliest"))
    if to_latest:
        found.append(Reset("latest"))
    if to_current:
        found.append(Reset("current"))
    if to_offset is not None:
        found.append(Reset("offset", to_offset))
    if to_datetime is not None:
        found.append(Reset("time", milliseconds(to_datetime)))
    if by_duration is not None:
        age_ms = duration_ms(by_duration)
        if age_ms is None:
            raise click.UsageError(f"--by-duration is {by_duration!r}; it must look like PT1H30M or P2D")
        found.append(Reset("time", int(time.time() * 1000) - age_ms))
    if shift_by is not None:
        found.append(Reset("shift", shift_by))
    if len(found) != 1:
        raise click.UsageError(
            "Say where to: one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration "
            "and --shift-by."
        )
    return found[0]


def milliseconds(text: str) -> int:
    """What `--to-datetime` says."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"--to-datetime is {text!r}; it must look like 2026-08-01T12:00:00") from None


def duration_ms(text: str) -> int | None:
    """A duration as ISO 8601 writes it (PT1H30M, P2D); None if it is none."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


async def chosen_partitions(admin: Admin, topics: tuple[str, ...]) -> list[TopicPartition]:
    """The partitions that `--topic orders` or `--topic orders:0,1` name."""
    from penstock.client.types import TopicPartition

    chosen = []
    for text in topics:
        name, _, numbers = text.partition(":")
        try:
            wanted = [int(number) for number in numbers.split(",")] if numbers else None
        except ValueError:
            raise click.UsageError(f"--topic is {text!r}; it must look like orders or orders:0,1") from None
        info = await find_topic(admin, name)
        chosen += [TopicPartition(name, number) for number in wanted or sorted(info.partitions)]
    return chosen


async def targets_of(
    admin: Admin,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    reset: Reset,
) -> dict[TopicPartition, int]:
    """The new offset of each partition, kept between the partition's beginning and end as Kafka does."""
    from penstock.client.types import OffsetSpec

    first = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    last = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    at_time = await admin.list_offsets(dict.fromkeys(partitions, reset.number)) if reset.kind == "time" else {}
    targets = {}
    for tp in partitions:
        begin, end = first[tp].offset, last[tp].offset
        current = committed[tp].offset if tp in committed and committed[tp].offset >= 0 else None
        wanted = {
            "earliest": begin,
            "latest": end,
            "current": end if current is None else current,
            "offset": reset.number,
            "shift": (begin if current is None else current) + reset.number,
            "time": at_time[tp].offset if tp in at_time and at_time[tp].offset >= 0 else end,
        }[reset.kind]
        targets[tp] = min(max(wanted, begin), end)
    return targets
