"""The same as `copier`, with Penstock's own client and so with the protocol of KIP-890.

python -m tests.transactions.modern_copier BOOTSTRAP GROUP NUMBER INPUT OUTPUT SEED assign
"""

from __future__ import annotations

import asyncio
import random
import sys

from penstock.client import Consumer, Producer, TopicPartition


async def main() -> None:
    bootstrap, group, number, source, target, seed, _ = sys.argv[1:]
    chance = random.Random(seed)
    read = TopicPartition(source, int(number))
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-{number}") as producer,
        Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        consumer.assign([read])
        while True:
            records = await consumer.poll(500, max_records=chance.randint(1, 20))
            if not records:
                continue
            producer.begin_transaction()
            for record in records:
                await producer.send(target, record.value, partition=read.partition)
            await producer.send_offsets_to_transaction({read: records[-1].offset + 1}, group)
            if chance.random() < 0.2:
                await producer.flush()
                await producer.abort_transaction()
                committed = (await consumer.committed([read]))[read]
                consumer.seek(read, 0 if committed is None else committed.offset)
            else:
                await producer.commit_transaction()


if __name__ == "__main__":
    asyncio.run(main())
