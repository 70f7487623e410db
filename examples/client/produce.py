"""Sends records and prints where each one ended up."""

import asyncio
import os

from penstock.client import Admin, Producer
from penstock.wire.errors import TopicAlreadyExists

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")


async def main() -> None:
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        try:
            await admin.create_topic("example-orders", 3)
        except TopicAlreadyExists:
            pass
    async with Producer(bootstrap_servers=BOOTSTRAP, compression_type="zstd") as producer:
        # `send` puts a record into the buffer; records with the same key keep their order.
        deliveries = [
            await producer.send("example-orders", f"order {number}", key=f"customer {number % 4}")
            for number in range(10)
        ]
        for delivery in deliveries:
            place = await delivery
            print(f"partition {place.partition}, offset {place.offset}")


asyncio.run(main())
