"""An e-mail job queue: retries that wait longer each time, and dead letters for what cannot be sent.

The mail server here is busy now and then (try again later) and knows some addresses not to exist (never try again). A
worker that raises gives the job back, and the group's `penstock.share.retry.backoff.ms` keeps it out of reach for a
while, so that a busy server is not hammered. A job that is rejected, or was tried as often as
`share.delivery.count.limit` allows, goes to the group's dead-letter topic with headers that say why.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter

from stage import arguments, broker, prepare

from penstock.client import Consumer, ConsumerRecord, Producer, Reject, ShareConsumer

DEAD_LETTERS = "dlq.emails"


class Busy(Exception):
    """The mail server says 451: try again later."""


class MailServer:
    """Half of all attempts find it busy; nobody lives at nobody@; one mailbox has been full for ever."""

    def __init__(self, deliverable: int) -> None:
        self.dice = random.Random(1)
        self.sent: list[str] = []
        self.deliverable = deliverable
        self.all_sent = asyncio.Event()
        self.attempts: Counter[str] = Counter()

    async def deliver(self, address: str) -> None:
        self.attempts[address] += 1
        await asyncio.sleep(0.001)
        if address.startswith("nobody"):
            raise Reject("550 no such user")
        if address.startswith("full") or self.dice.random() < 0.5:
            raise Busy("451 try again later")
        self.sent.append(address)
        if len(self.sent) == self.deliverable:
            self.all_sent.set()


async def enqueue(bootstrap: str, addresses: list[str]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for address in addresses:
            await producer.send("emails", "Your order is on its way.", key=address)
        await producer.flush()


async def read_dead_letters(bootstrap: str, expected: int) -> list[tuple[str, str]]:
    letters: list[tuple[str, str]] = []
    async with Consumer(bootstrap_servers=bootstrap, group_id="postmaster", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([DEAD_LETTERS])
        async with asyncio.timeout(30):
            while len(letters) < expected:
                for record in await consumer.poll(500):
                    why = dict(record.headers)["__dlq.errors.message"] or b""
                    letters.append(((record.key or b"").decode(), why.decode()))
    return letters


async def main() -> None:
    options = arguments(__doc__ or "", emails=60, workers=3)
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # a busy server is no news here
    addresses = [f"customer{n}@example.org" for n in range(options.emails)]
    addresses[10], addresses[20] = "nobody@example.org", "full@example.org"
    server = MailServer(deliverable=len(addresses) - 2)
    finished = asyncio.Event()

    async def work(bootstrap: str) -> None:
        async with ShareConsumer(bootstrap_servers=bootstrap, group_id="mailers", max_poll_records=10) as worker:

            async def send(record: ConsumerRecord[bytes, bytes]) -> None:
                await server.deliver((record.key or b"").decode())

            worker.subscribe("emails")
            await worker.run(send, concurrency=5, stop=finished)

    async with broker(options.bootstrap) as bootstrap:
        await prepare(bootstrap, "mailers", "emails")
        await prepare(
            bootstrap,
            "mailers",
            DEAD_LETTERS,
            group_configs={
                "share.delivery.count.limit": "10",
                "penstock.share.retry.backoff.ms": "20",
                "penstock.share.retry.backoff.multiplier": "1.5",
                "errors.deadletterqueue.topic.name": DEAD_LETTERS,
                "errors.deadletterqueue.copy.record.enable": "true",
            },
            errors_deadletterqueue_group_enable="true",
        )
        await enqueue(bootstrap, addresses)
        crew = [asyncio.create_task(work(bootstrap)) for _ in range(options.workers)]
        dead = await read_dead_letters(bootstrap, expected=2)
        async with asyncio.timeout(60):
            await server.all_sent.wait()
        finished.set()
        await asyncio.gather(*crew)
    retries = sum(server.attempts.values()) - len(server.attempts)
    print(f"{len(server.sent)} e-mails sent, {retries} retries")
    for address, why in dead:
        print(f"  dead letter: {address} after {server.attempts[address]} attempts: {why}")


if __name__ == "__main__":
    asyncio.run(main())
