"""Many records at a time: whole batches in, whole batches out, as columns."""

import asyncio
import os

from penstock.client import Consumer, Producer

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")
COUNT = 50_000


async def main() -> None:
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        await producer.send_batch("example-readings", [b"%d" % number for number in range(COUNT)])
        await producer.flush()
    async with Consumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest") as consumer:
        consumer.assign([("example-readings", number) for number in await consumer.partitions_for("example-readings")])
        total = count = 0
        while count < COUNT:
            for batch in await consumer.poll_batches(10_000):
                count += len(batch)  # known without decoding anything
                total += sum(map(int, filter(None, batch.values)))  # decodes this column only
        print(f"{count} readings, sum {total}")
        # batch.to_arrow() gives a pyarrow.RecordBatch (pip install 'penstock[arrow]').


asyncio.run(main())
