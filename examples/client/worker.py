"""A queue: a pool of handlers takes records off a topic; each is accepted, released or rejected on its own."""

import asyncio
import os

from penstock.client import Admin, ConsumerRecord, Producer, Reject, ResourceType, ShareConsumer

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")
finished = asyncio.Event()
done: set[int] = set()


async def resize(record: ConsumerRecord[bytes, bytes]) -> None:
    if record.value == b"not an image":
        raise Reject("cannot be processed, ever")
    if record.value == b"image 3" and record.delivery_count == 1:
        raise ConnectionError("the disk was away; this record will come again")
    await asyncio.sleep(0.01)  # the work; the record stays locked for as long as it takes
    done.add(record.offset)
    print(f"{(record.value or b'').decode()} done at delivery {record.delivery_count}")
    if len(done) == 8:
        finished.set()


async def main() -> None:
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        # A new group starts at the end unless it is told otherwise before its first worker joins.
        await admin.alter_configs(ResourceType.GROUP, "example-workers", {"share.auto.offset.reset": "earliest"})
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(8):
            await producer.send("example-images", f"image {number}")
        await producer.send("example-images", "not an image")
    async with ShareConsumer(bootstrap_servers=BOOTSTRAP, group_id="example-workers") as worker:
        worker.subscribe(["example-images"])
        await asyncio.wait_for(worker.run(resize, concurrency=4, stop=finished), 60)


asyncio.run(main())
