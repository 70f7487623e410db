"""Where a reset takes a group: the words of a form, the options of the command, the new offsets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

from penstock.client.admin import Admin
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.console.moments import MalformedMoment, milliseconds
from penstock.console.questions import Form
from penstock.console.web import field_of, number_of

KINDS = ("earliest", "latest", "offset", "datetime", "shift")


async def chosen(admin: Admin, form: Form) -> tuple[str, list[TopicPartition]]:
    """The value of the command's --topic, and its partitions, all of the topic where the form names none."""
    name = field_of(form, "topic", limit=249)
    known = sorted((await admin.describe_topic(name)).partitions)
    words = form.get("partitions", "").replace(" ", "")
    if not words:
        return name, [TopicPartition(name, number) for number in known]
    numbers = [number_of(word, "Partition", 0, known[-1]) for word in words.split(",")]
    return f"{name}:{words}", [TopicPartition(name, number) for number in numbers]


def options_of(form: Form) -> tuple[str, int, list[str]]:
    """Kind, number (an offset, a distance, or a time in milliseconds), and the command's options."""
    kind = form.get("kind", "")
    if kind in ("earliest", "latest"):
        return kind, 0, [f"--to-{kind}"]
    if kind == "offset":
        number = number_of(field_of(form, "value"), "Offset")
        return kind, number, ["--to-offset", str(number)]
    if kind == "shift":
        number = number_of(field_of(form, "value"), "The number of records", -(2**62), 2**62)
        return kind, number, ["--shift-by", str(number)]
    if kind == "datetime":
        try:
            at = milliseconds(field_of(form, "value", limit=40))
        except MalformedMoment as error:
            raise HTTPException(400, f"{error}.") from None
        return kind, at, ["--to-datetime", datetime.fromtimestamp(at / 1000, UTC).isoformat()]
    raise HTTPException(400, f"Say where to: one of {', '.join(KINDS)}.")


async def targets(
    admin: Admin, partitions: list[TopicPartition], current: Mapping[TopicPartition, int], kind: str, number: int
) -> dict[TopicPartition, int]:
    """The new offsets, kept between the beginning and the end of each partition."""
    first = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    last = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    at_time = await admin.list_offsets(dict.fromkeys(partitions, number)) if kind == "datetime" else {}
    found = {}
    for tp in partitions:
        begin, end = first[tp].offset, last[tp].offset
        if kind == "earliest":
            target = begin
        elif kind == "offset":
            target = number
        elif kind == "shift":
            target = current.get(tp, begin) + number
        elif kind == "datetime" and at_time[tp].offset >= 0:
            target = at_time[tp].offset
        else:
            target = end
        found[tp] = min(max(target, begin), end)
    return found
