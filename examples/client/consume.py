"""Reads as a member of a group, one record at a time, and commits what was handled."""

import asyncio
import os

from penstock.client import Consumer, ConsumerRecord, Producer, RebalanceListener, TopicPartition

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")


class Talkative(RebalanceListener):
    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print("got", ", ".join(map(str, partitions)))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print("gave up", ", ".join(map(str, partitions)))


async def handle(record: ConsumerRecord[str, str]) -> None:
    print(f"{record.topic}-{record.partition} offset {record.offset}: {record.key} -> {record.value}")


async def main() -> None:
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(5):
            await producer.send("example-events", f"event {number}", key="k")
    async with Consumer(
        bootstrap_servers=BOOTSTRAP,
        group_id="example-group",
        group_protocol="consumer",  # KIP-848; "classic" works with every broker
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        key_deserializer=bytes.decode,
        value_deserializer=bytes.decode,
    ) as consumer:
        consumer.subscribe(["example-events"], listener=Talkative())
        handled = 0
        async for record in consumer:
            await handle(record)
            handled += 1
            if handled == 5:
                break
        await consumer.commit()


asyncio.run(main())
