"""Reads, changes, writes: output and input offsets are committed together, or not at all."""

import asyncio
import os

from penstock.client import Consumer, Producer, TopicPartition

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")


async def main() -> None:
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(20):
            await producer.send("example-numbers", str(number))
    async with (
        Consumer(
            bootstrap_servers=BOOTSTRAP,
            group_id="example-doubler",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,  # the transaction commits the offsets
        ) as consumer,
        Producer(bootstrap_servers=BOOTSTRAP, transactional_id="example-doubler-1") as producer,
    ):
        consumer.subscribe(["example-numbers"])
        done = 0
        while done < 20:
            records = await consumer.poll(10_000, max_records=5)
            if not records:
                break
            async with producer.transaction():
                next_offsets: dict[TopicPartition, int] = {}
                for record in records:
                    await producer.send("example-doubled", str(2 * int(record.value or 0)))
                    next_offsets[record.topic_partition] = record.offset + 1
                await producer.send_offsets_to_transaction(next_offsets, consumer)
            done += len(records)
            print(f"{done} records doubled")


asyncio.run(main())
