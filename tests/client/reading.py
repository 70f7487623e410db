"""Writing a few records and reading them back, as most tests do."""

from __future__ import annotations

import asyncio
import time

from penstock.client import Consumer, Producer, ShareConsumer
from penstock.client.types import ConsumerRecord

# Recent, so that no retention removes what the tests write.
BASE_MS = int(time.time() * 1000) - 600_000


async def fill(producer: Producer, topic: str, count: int, partition: int = 0) -> None:
    """Send b"0", b"1", … a second apart from `BASE_MS` on."""
    for number in range(count):
        await producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=BASE_MS + number * 1000)
    await producer.flush()


async def take(consumer: Consumer[bytes, bytes], count: int) -> list[bytes | None]:
    """The values of the next records."""
    found: list[bytes | None] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [record.value for record in await consumer.poll(1000, max_records=count - len(found))]
    return found


async def take_locked(worker: ShareConsumer[bytes, bytes]) -> list[ConsumerRecord[bytes, bytes]]:
    """The next records of a queue, however long its group takes to form."""
    async with asyncio.timeout(20):
        while not (records := await worker.poll(1000)):
            pass
    return records
