"""A queue: many workers of a share group on one partition, some of which fail now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter

from examples.demo.stage import WAIT_SECONDS, Results, check
from penstock.client import Admin, ConsumerRecord, Producer, Reject, ResourceType, ShareConsumer

TOPIC = "emails"
GROUP = "mailers"
JOBS = 2000
WORKERS = 4
AT_A_TIME = 16


class Mailer:
    """Every fiftieth job fails at the first attempt; every five hundredth can never be done."""

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()
        self.retried = self.rejected = 0
        self.finished = asyncio.Event()

    async def send(self, record: ConsumerRecord[bytes, bytes]) -> None:
        job = int(record.value or b"0")
        await asyncio.sleep(0.002)
        if job % 500 == 499:
            self.rejected += 1
            self._look()
            raise Reject("nobody lives there")
        if job % 50 == 7 and record.delivery_count == 1:
            self.retried += 1
            raise ConnectionError("the mail server is busy")
        self.done[job] += 1
        self._look()

    def _look(self) -> None:
        if len(self.done) + self.rejected == JOBS:
            self.finished.set()


async def run(address: str, results: Results) -> None:
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # handlers that fail are no news here
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(TOPIC, 1)
        await admin.alter_configs(ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
    async with Producer(bootstrap_servers=address) as producer:
        for job in range(JOBS):
            await producer.send(TOPIC, str(job))
    mailer = Mailer()
    started = time.perf_counter()
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*(work(address, mailer) for _ in range(WORKERS)))
    seconds = time.perf_counter() - started
    check(len(mailer.done) + mailer.rejected == JOBS, "some jobs were not done")
    check(set(mailer.done.values()) == {1}, "some jobs were done twice")
    found = f"each once; {mailer.retried} came again after a failure, {mailer.rejected} rejected"
    results.add(f"queue, {WORKERS} workers × {AT_A_TIME} on one partition", JOBS, seconds, found)


async def work(address: str, mailer: Mailer) -> None:
    async with ShareConsumer(bootstrap_servers=address, group_id=GROUP) as worker:
        worker.subscribe([TOPIC])
        await worker.run(mailer.send, concurrency=AT_A_TIME, stop=mailer.finished)
