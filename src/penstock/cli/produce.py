"""`penstock produce`: records from the arguments or from standard input, one per line."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import click

from penstock.cli.connecting import connection_settings
from penstock.cli.failures import Failure, unknown_topic
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, option, pairs
from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.client.accumulator import Delivery
    from penstock.client.producer import Producer

_READ_BYTES = 1 << 16


class Outgoing(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@option("--key", help="Key of every record.")
@option("--key-separator", metavar="TEXT", help="What separates key and value on each line of the input.")
@option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header of every record.")
@option("--partition", type=click.IntRange(0), help="Partition to write to, instead of choosing by key.")
@option(
    "--json",
    "as_json",
    is_flag=True,
    help='Each line is an object: {"key": …, "value": …, "headers": {…}, "partition": …, "timestamp": …}.',
)
@option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@option("--create", is_flag=True, help="Let the broker create the topic if it does not exist.")
@bootstrap_option
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    as_json: bool,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"],
    acks: Literal["all", "1", "0"],
    create: bool,
    bootstrap: str,
) -> None:
    """Write records to TOPIC: the VALUEs given, or else one for each line of standard input.

    \b
      penstock produce orders "first order" --key customer-7
      penstock produce orders < orders.txt
      echo 'customer-7:first order' | penstock produce orders --key-separator :
      echo '{"key": "k", "value": {"amount": 3}}' | penstock produce orders --json
    """
    from penstock.client.producer import Producer

    reader = _Reader(
        key.encode() if key is not None else None,
        key_separator.encode() if key_separator else None,
        [(name, value.encode()) for name, value in pairs(headers, "--header").items()],
        partition,
        as_json,
    )

    settings = connection_settings(bootstrap)

    async def main() -> int:
        async with Producer(
            settings,
            client_id="penstock-cli",
            compression_type=compression,
            acks=acks,
            batch_size=262_144,
            max_block_ms=15_000,
            allow_auto_create_topics=create,
            socket_connection_setup_timeout_ms=5_000,
        ) as producer:
            return await _send(producer, topic, reader, values, create)

    count = asyncio.run(main())
    note(f"Wrote {count} record{'' if count == 1 else 's'} to {topic}.")


class _Reader:
    """Turns arguments or lines into records."""

    def __init__(
        self,
        key: bytes | None,
        separator: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
        as_json: bool,
    ) -> None:
        self._key = key
        self._separator = separator
        self._headers = headers
        self._partition = partition
        self._as_json = as_json

    def read(self, line: bytes, number: int) -> Outgoing:
        if self._as_json:
            return self._from_json(line, number)
        key, value = self._key, line
        if self._separator is not None:
            key, found, value = line.partition(self._separator)
            if not found:
                raise Failure(f"Line {number} has no key: there is no {self._separator.decode()!r} in it.")
        return Outgoing(key, value, self._headers, self._partition, None)

    def _from_json(self, line: bytes, number: int) -> Outgoing:
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise Failure(f"Line {number} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise Failure(f'Line {number} is not an object such as {{"key": "k", "value": "v"}}.')
        headers = list(self._headers)
        extra = fields.get("headers") or {}
        for name, value in extra.items() if isinstance(extra, dict) else extra:
            headers.append((str(name), _bytes(value)))
        key = _cell(fields, "key")
        partition = fields.get("partition", self._partition)
        timestamp = fields.get("timestamp")
        if not isinstance(partition, int | None) or not isinstance(timestamp, int | None):
            raise Failure(f"Line {number}: partition and timestamp must be whole numbers.")
        return Outgoing(key if key is not None else self._key, _cell(fields, "value"), headers, partition, timestamp)


def _cell(fields: dict[str, object], name: str) -> bytes | None:
    """`value`, or `value_base64` for bytes that are not text, as `penstock consume --json` prints them."""
    encoded = fields.get(f"{name}_base64")
    if isinstance(encoded, str):
        return base64.b64decode(encoded)
    return _bytes(fields.get(name))


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


async def _send(producer: Producer, topic: str, reader: _Reader, values: tuple[str, ...], create: bool) -> int:
    from penstock.wire.errors import UnknownTopicOrPartition

    count = 0
    last: list[Delivery] = []
    try:
        if not create:
            await _require_topic(producer, topic)
        async for line in _lines(values):
            count += 1
            out = reader.read(line, count)
            delivery = await producer.send(
                topic,
                out.value,
                key=out.key,
                headers=out.headers,
                partition=out.partition,
                timestamp_ms=out.timestamp_ms,
            )
            last.append(delivery)
            if len(last) >= 10_000:
                await _settle(last)
        await producer.flush()
        await _settle(last)
    except UnknownTopicOrPartition as error:
        if topic in await producer.topic_names():
            raise
        raise unknown_topic(topic, await producer.topic_names()) from error
    return count


async def _require_topic(producer: Producer, topic: str) -> None:
    """Fail at once when the topic is not there: waiting would not bring it."""
    names = await producer.topic_names()
    if topic not in names:
        raise unknown_topic(topic, names)


async def _settle(deliveries: list[Delivery]) -> None:
    for delivery in deliveries:
        await delivery
    deliveries.clear()


async def _lines(values: tuple[str, ...]) -> AsyncIterator[bytes]:
    """The arguments, or the lines of standard input as they come, without blocking the event loop."""
    if values:
        for value in values:
            yield value.encode()
        return
    if sys.stdin.isatty():
        note("Type one record per line; Ctrl-D ends.")
    loop = asyncio.get_running_loop()
    stream = cast(io.BufferedReader, sys.stdin.buffer)
    rest = b""
    while True:
        chunk = await loop.run_in_executor(None, stream.read1, _READ_BYTES)
        if not chunk:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
