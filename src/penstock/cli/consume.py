"""`penstock consume`: records to standard output, one per line."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from penstock.cli.connecting import connection_settings
from penstock.cli.failures import unknown_topic
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, option
from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.types import ConsumerRecord, TopicPartition


class Start(NamedTuple):
    """Where to begin: at an offset, at a time, or so many records before the end."""

    kind: Literal["offset", "time", "last"]
    number: int


class StartType(click.ParamType):  # type: ignore[type-arg]
    name = "start"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, Start):
            return value
        text = str(value).strip()
        if text in ("beginning", "earliest"):
            return Start("time", -2)
        if text in ("end", "latest"):
            return Start("time", -1)
        if text.lstrip("-").isdigit():
            return Start("last", -int(text)) if text.startswith("-") else Start("offset", int(text))
        if text.startswith("@") and text[1:].isdigit():
            return Start("time", int(text[1:]))
        try:
            return Start("time", int(datetime.fromisoformat(text).timestamp() * 1000))
        except ValueError:
            self.fail(
                f"{text!r} is none of: beginning, end, an offset (120), records before the end (-10), a time "
                "(2026-01-31T12:00 or @1767225600000)",
                param,
                ctx,
            )


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("topic")
@option(
    "--from",
    "from_",
    type=StartType(),
    metavar="WHERE",
    help="beginning, end, an offset (120), records before the end (-10), a time (2026-01-31T12:00 or "
    "@MILLISECONDS).  [default: beginning, or where the group stands]",
)
@option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition.")
@option("--max", "max_", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@option("--exit-at-end", is_flag=True, help="Stop at the current end of the topic instead of waiting for more.")
@option("--group", metavar="GROUP", help="Read as a member of this group, and commit what was read.")
@option("--keys", is_flag=True, help="Print the key before the value.")
@option("--headers", is_flag=True, help="Print the headers before the value.")
@option("--offsets", is_flag=True, help="Print partition and offset before the value.")
@option("--separator", default="\t", help="What to print between key, headers, offset and value.  [default: tab]")
@option("--json", "as_json", is_flag=True, help="Print one JSON object per record.")
@option("--committed", is_flag=True, help="Leave out records of open and aborted transactions.")
@bootstrap_option
def consume(
    topic: str,
    from_: Start | None,
    partitions: tuple[int, ...],
    max_: int | None,
    exit_at_end: bool,
    group: str | None,
    keys: bool,
    headers: bool,
    offsets: bool,
    separator: str,
    as_json: bool,
    committed: bool,
    bootstrap: str,
) -> None:
    """Read the records of TOPIC and print their values, until Ctrl-C.

    \b
      penstock consume orders --exit-at-end
      penstock consume orders --from -10 --keys
      penstock consume orders --from 2026-01-31T12:00 --max 100 --json
    """
    if group and partitions:
        raise click.UsageError("--group and --partition exclude each other: a group hands out the partitions itself.")
    printer = _Printer(as_json, keys, headers, offsets, separator.encode())
    task = _Task(
        topic, from_, partitions, max_, exit_at_end, group or "", committed, connection_settings(bootstrap), printer
    )
    asyncio.run(task.run())


class _Printer:
    def __init__(self, as_json: bool, keys: bool, headers: bool, offsets: bool, separator: bytes) -> None:
        self._as_json = as_json
        self._keys = keys
        self._headers = headers
        self._offsets = offsets
        self._separator = separator

    def print(self, records: list[ConsumerRecord[bytes, bytes]]) -> None:
        line = self._json_line if self._as_json else self._plain_line
        out = sys.stdout.buffer
        out.write(b"".join([line(record) + b"\n" for record in records]))
        out.flush()

    def _plain_line(self, record: ConsumerRecord[bytes, bytes]) -> bytes:
        value = record.value if record.value is not None else b"null"
        if not (self._keys or self._headers or self._offsets):
            return value
        cells = []
        if self._offsets:
            cells.append(b"%d:%d" % (record.partition, record.offset))
        if self._headers:
            cells.append(b",".join(name.encode() + b"=" + (content or b"") for name, content in record.headers))
        if self._keys:
            cells.append(record.key if record.key is not None else b"null")
        return self._separator.join([*cells, value])

    @staticmethod
    def _json_line(record: ConsumerRecord[bytes, bytes]) -> bytes:
        fields: dict[str, object] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
        }
        for name, content in (("key", record.key), ("value", record.value)):
            try:
                fields[name] = content.decode() if content is not None else None
            except UnicodeDecodeError:
                fields[f"{name}_base64"] = base64.b64encode(content or b"").decode()
        if record.headers:
            fields["headers"] = [[name, (content or b"").decode(errors="replace")] for name, content in record.headers]
        return json.dumps(fields, ensure_ascii=False).encode()


class _Task:
    def __init__(
        self,
        topic: str,
        start: Start | None,
        partitions: tuple[int, ...],
        limit: int | None,
        exit_at_end: bool,
        group: str,
        committed: bool,
        settings: dict[str, object],
        printer: _Printer,
    ) -> None:
        self.topic = topic
        self.start = start
        self.partitions = partitions
        self.left = limit
        self.exit_at_end = exit_at_end
        self.group = group
        self.committed = committed
        self.settings = settings
        self.printer = printer

    async def run(self) -> None:
        from penstock.client.consumer import Consumer

        async with Consumer(
            self.settings,
            client_id="penstock-cli",
            group_id=self.group,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if self.committed else "read_uncommitted",
            enable_auto_commit=bool(self.group),
            allow_auto_create_topics=False,
            socket_connection_setup_timeout_ms=5_000,
            default_api_timeout_ms=15_000,
            max_poll_records=5_000,
        ) as consumer:
            ends = await self._begin(consumer)
            while self.left is None or self.left > 0:
                if ends is not None and await self._at_end(consumer, ends):
                    return
                records = await consumer.poll(200 if ends is not None else None, max_records=self.left)
                if self.left is not None:
                    self.left -= len(records)
                if records:
                    self.printer.print(records)

    async def _begin(self, consumer: Consumer[bytes, bytes]) -> dict[TopicPartition, int] | None:
        """Assign or join, go to where reading starts; returns where it ends, if it is to end."""
        from penstock.client.types import TopicPartition

        names = await consumer.topic_names()
        if self.topic not in names:
            raise unknown_topic(self.topic, names)
        numbers = await consumer.partitions_for(self.topic)
        for number in self.partitions:
            if number not in numbers:
                raise click.UsageError(f"{self.topic} has partitions 0 to {max(numbers)}, not {number}.")
        chosen = [TopicPartition(self.topic, number) for number in (self.partitions or numbers)]
        ends = await consumer.end_offsets(chosen) if self.exit_at_end else None
        if self.group:
            consumer.subscribe([self.topic])
            if self.start is not None:
                note("--from is not used with --group: reading starts where the group stands.")
        else:
            consumer.assign(chosen)
            await self._seek(consumer, chosen)
        return ends

    async def _seek(self, consumer: Consumer[bytes, bytes], chosen: list[TopicPartition]) -> None:
        kind, number = self.start or Start("time", -2)
        if kind == "offset":
            first = await consumer.beginning_offsets(chosen)
            for tp in chosen:
                consumer.seek(tp, max(number, first[tp]))
        elif kind == "last":
            first, last = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
            for tp in chosen:
                consumer.seek(tp, max(last[tp] - number, first[tp]))
        elif number == -2:
            consumer.seek_to_beginning()
        elif number == -1:
            consumer.seek_to_end()
        else:
            found = await consumer.offsets_for_times(dict.fromkeys(chosen, number))
            last = await consumer.end_offsets(chosen)
            for tp, place in found.items():
                consumer.seek(tp, place.offset if place is not None else last[tp])

    async def _at_end(self, consumer: Consumer[bytes, bytes], ends: dict[TopicPartition, int]) -> bool:
        held = consumer.assignment()
        if not held:
            return False
        for tp in held:
            if await consumer.position(tp) < ends.get(tp, 0):
                return False
        return True
