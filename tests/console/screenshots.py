"""`python -m tests.console.screenshots FOLDER [PAGE...]`: pages of the console as pictures, light and dark.

A broker with a little shop in it is started: topics, a consumer group that is behind, a queue whose workers accept,
release and reject, an open transaction. `make screenshots` does it.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.client.admin import Admin, ResourceType
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.testing.broker import Broker

CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()), None)
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "configs": "/topics/orders/configs",
    "messages": "/topics/orders/messages",
    "search": "/topics/orders/messages?from=beginning&by=expression&q="
    + quote('$.total >= 180 and header.region = "eu"'),
    "internal": "/topics/__consumer_offsets/messages",
    "message": "/topics/orders/messages/0/7",
    "produce": "/topics/orders/produce?again=0-7",
    "new-topic": "/topics/new",
    "groups": "/groups",
    "group": "/groups/billing",
    "queues": "/queues",
    "queue": "/queues/packing",
    "dead-letters": "/queues/packing/dead-letters",
    "transactions": "/transactions",
    "cluster": "/cluster",
    "clients": "/clients",
    "access": "/access",
    "pipelines": "/pipelines",
}
SIZES = {"wide": (2000, 1100), "desk": (1280, 860), "narrow": (400, 800)}
_SETTLE_MS = 1_500


async def furnish(settings: dict[str, Any]) -> None:
    """Topics with records in them, and the configs of the queue."""
    async with Admin(settings) as admin, Producer(settings) as producer:
        for name, partitions in (("orders", 6), ("payments", 3), ("packages", 2), ("audit", 1)):
            await admin.create_topic(name, partitions, 1)
        await admin.create_topic("dlq.packing", 1, 1, {"errors.deadletterqueue.group.enable": "true"})
        await admin.alter_configs(
            ResourceType.GROUP,
            "packing",
            {
                "errors.deadletterqueue.topic.name": "dlq.packing",
                "share.auto.offset.reset": "earliest",
                "penstock.share.retry.backoff.ms": "8000",
            },
        )
        chance = random.Random(7)
        for number in range(3_000):
            order = {
                "order": number,
                "customer": chance.choice(["ada", "grace", "edsger", "barbara", "tony"]),
                "total": round(chance.uniform(5, 200), 2),
                "lines": [{"article": f"A-{chance.randrange(900)}", "count": chance.randrange(1, 5)}],
            }
            region = chance.choice([b"eu", b"us"])
            await producer.send("orders", json.dumps(order), key=str(order["customer"]), headers=[("region", region)])
            if number % 3 == 0:
                await producer.send("payments", json.dumps({"order": number, "paid": True}), key=str(number))
            if number < 600:
                await producer.send("packages", f"package {number}", partition=number % 2)
        await producer.flush()
        await admin.alter_group_offsets("reports", {("payments", 0): 10, ("payments", 1): 5})


async def sell(settings: dict[str, Any], until: threading.Event) -> None:
    """A trickle of orders, so that rates are not zero."""
    async with Producer(settings) as producer:
        while not until.is_set():
            for number in range(20):
                order = {"order": number, "customer": "ada", "total": 12.5}
                await producer.send("orders", json.dumps(order), key="ada")
                if number < 8:
                    await producer.send("packages", f"package {number}", partition=number % 2)
            await producer.flush()
            await asyncio.sleep(0.1)


async def bill(settings: dict[str, Any], until: threading.Event, name: str) -> None:
    """A consumer that is slower than what arrives."""
    async with Consumer(settings, group_id="billing", client_id=name, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while not until.is_set():
            await consumer.poll(500, max_records=20)
            await asyncio.sleep(0.2)


async def pack(settings: dict[str, Any], until: threading.Event, name: str, pace: float) -> None:
    """A worker that accepts most records, releases some and rejects a few."""
    chance = random.Random(name)
    async with ShareConsumer(
        settings, group_id="packing", client_id=name, share_acknowledgement_mode="explicit", max_poll_records=60
    ) as consumer:
        consumer.subscribe(["packages"])
        while not until.is_set():
            for record in await consumer.poll(timeout_ms=500):
                kind = chance.choices(["ACCEPT", "RELEASE", "REJECT"], [80, 17, 3])[0]
                consumer.acknowledge(record, AcknowledgeType[kind])
                await asyncio.sleep(pace)
            await consumer.commit()


@contextmanager
def shop(broker: Broker) -> Iterator[None]:
    """The shop's programs, each with an event loop of its own, until the end."""
    settings = broker.client_settings()
    until = threading.Event()
    work: list[Coroutine[Any, Any, None]] = [
        sell(settings, until),
        bill(settings, until, "billing-1"),
        bill(settings, until, "billing-2"),
        pack(settings, until, "packer-1", 0.015),
        pack(settings, until, "packer-2", 0.02),
    ]
    asyncio.run(furnish(settings))
    threads = [threading.Thread(target=asyncio.run, args=(each,), daemon=True) for each in work]
    for thread in threads:
        thread.start()
    time.sleep(6)
    try:
        yield
    finally:
        until.set()
        for thread in threads:
            thread.join(20)


def photograph(address: str, folder: Path, pages: dict[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark") if size == "desk" else ("light",):
                context = browser.new_context(
                    base_url=address, viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page = context.new_page()
                for name, path in pages.items():
                    page.goto(path)
                    page.wait_for_timeout(_SETTLE_MS)
                    page.screenshot(path=str(folder / f"{name}-{size}-{scheme}.png"))
                    print(f"{name}-{size}-{scheme}", flush=True)
                context.close()
        browser.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: path for name, path in PAGES.items() if name in sys.argv[2:]} or PAGES
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker, shop(broker):
        line = [sys.executable, "-m", "penstock.cli.main", "console", "--listen", "127.0.0.1:0", "--until-stdin-closes"]
        line += ["--bootstrap", broker.bootstrap_servers]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            address = process.stdout.readline().removeprefix("Console: ").strip().rstrip("/")
            photograph(address, folder, pages)
            process.stdin.close()


if __name__ == "__main__":
    main()
