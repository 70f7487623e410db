"""Image workers: many of them take uploads from one partition and shrink them.

An ordinary consumer group gives a partition to one consumer, and one slow image holds up all behind it. In a share
group each image is taken, finished and acknowledged on its own, by whoever is free. An image that cannot be read is
rejected: it would fail for every worker, so nobody needs to see it again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from stage import arguments, broker, prepare

from penstock.client import ConsumerRecord, Producer, Reject, ShareConsumer

SIDE, SMALL = 64, 8


def photo(number: int) -> bytes:
    """A grey picture in the PGM format; every fortieth upload arrives damaged."""
    pixels = bytes((x * number + y) % 256 for y in range(SIDE) for x in range(SIDE))
    header = f"P5 {SIDE} {SIDE} 255\n".encode()
    return header[3:] if number % 40 == 7 else header + pixels


def thumbnail(data: bytes) -> bytes:
    """The picture at an eighth of its size: each pixel the mean of the 8 x 8 that it stands for."""
    header, _, pixels = data.partition(b"\n")
    if not header.startswith(b"P5 ") or len(pixels) != SIDE * SIDE:
        raise Reject("not a picture")
    step = SIDE // SMALL
    small = bytes(
        sum(pixels[(y * step + j) * SIDE + x * step + i] for j in range(step) for i in range(step)) // step**2
        for y in range(SMALL)
        for x in range(SMALL)
    )
    return f"P5 {SMALL} {SMALL} 255\n".encode() + small


async def upload(bootstrap: str, uploads: int) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(uploads):
            await producer.send("uploads", photo(number), key=f"photo-{number}")
        await producer.flush()


async def main() -> None:
    options = arguments(__doc__ or "", uploads=400, workers=4)
    done: Counter[str] = Counter()
    finished = asyncio.Event()

    async def work(bootstrap: str, name: str) -> None:
        async with (
            ShareConsumer(bootstrap_servers=bootstrap, group_id="thumbnailers", max_poll_records=10) as worker,
            Producer(bootstrap_servers=bootstrap) as results,
        ):

            async def shrink(record: ConsumerRecord[bytes, bytes]) -> None:
                outcome = "rejected"
                try:
                    await results.send("thumbnails", thumbnail(record.value or b""), key=record.key)
                    outcome = name
                finally:
                    done[outcome] += 1
                    if done.total() >= options.uploads:
                        finished.set()

            worker.subscribe("uploads")
            await worker.run(shrink, concurrency=5, stop=finished)

    async with broker(options.bootstrap) as bootstrap:
        await prepare(bootstrap, "thumbnailers", "uploads", "thumbnails")
        await upload(bootstrap, options.uploads)
        started = time.perf_counter()
        await asyncio.gather(*(work(bootstrap, f"worker {n + 1}") for n in range(options.workers)))
        seconds = time.perf_counter() - started
    made = done.total() - done["rejected"]
    print(f"{made} thumbnails in {seconds:.1f} s, {done['rejected']} uploads rejected")
    for name in sorted(set(done) - {"rejected"}):
        print(f"  {name}: {done[name]}")


if __name__ == "__main__":
    asyncio.run(main())
