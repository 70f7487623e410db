"""Exactly once: large orders become lines of a ledger, in transactions, of which some are made to fail."""

from __future__ import annotations

import json
import time

from examples.demo.stage import Results, check
from examples.demo.stream import RECORDS, amount_of
from examples.demo.stream import TOPIC as ORDERS
from penstock.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition

TOPIC = "ledger"
PARTITIONS = 2
LARGE = 450
POLL_RECORDS = 10_000
EXPECTED = sum(amount_of(number) >= LARGE for number in range(RECORDS))


class PowerCut(Exception):
    """What the demo throws into a transaction."""


async def run(address: str, results: Results) -> None:
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(TOPIC, PARTITIONS)
    started = time.perf_counter()
    async with (
        Consumer(
            bootstrap_servers=address,
            group_id="accounting",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,  # the transaction commits the offsets
        ) as consumer,
        Producer(bootstrap_servers=address, transactional_id="accounting-1") as producer,
    ):
        consumer.subscribe([ORDERS])
        read = attempts = aborted = 0
        while read < RECORDS:
            records = await consumer.poll(10_000, max_records=POLL_RECORDS)
            check(bool(records), f"no orders came any more after {read}")
            attempts += 1
            try:
                await book(producer, consumer, records, fail=attempts % 5 == 2)
                read += len(records)
            except PowerCut:
                aborted += 1
                for tp, offset in first_offsets(records).items():
                    consumer.seek(tp, offset)
    seconds = time.perf_counter() - started
    lines = await read_ledger(address, "read_committed")
    torn = len(await read_ledger(address, "read_uncommitted")) - len(lines)
    check(len(lines) == len(set(lines)) == EXPECTED, f"{EXPECTED} lines were expected, {len(lines)} are there")
    found = f"{len(lines):,} lines, each once; {aborted} transactions failed, and nobody sees their {torn:,} lines"
    results.add("transform, exactly once", RECORDS, seconds, found)


async def book(
    producer: Producer,
    consumer: Consumer[bytes, bytes],
    records: list[ConsumerRecord[bytes, bytes]],
    *,
    fail: bool,
) -> None:
    async with producer.transaction():
        behind: dict[TopicPartition, int] = {}
        for record in records:
            behind[record.topic_partition] = record.offset + 1
            order = json.loads(record.value or b"{}")
            if order["amount"] >= LARGE:
                line = {"order_id": order["order"], "customer": (record.key or b"").decode(), "amount": order["amount"]}
                await producer.send(TOPIC, json.dumps(line), key=record.key)
        await producer.send_offsets_to_transaction(behind, consumer)
        if fail:
            await producer.flush()
            raise PowerCut


def first_offsets(records: list[ConsumerRecord[bytes, bytes]]) -> dict[TopicPartition, int]:
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(record.topic_partition, record.offset)
    return first


async def read_ledger(address: str, isolation: str) -> list[int]:
    """The order number of every line that a reader sees."""
    lines: list[int] = []
    async with Consumer({"isolation.level": isolation}, bootstrap_servers=address) as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            lines += [json.loads(record.value or b"{}")["order_id"] for record in await consumer.poll(1000)]
    return lines
