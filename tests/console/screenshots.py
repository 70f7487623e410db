"""`python -m tests.console.screenshots FOLDER [PAGE...]`: pages of the console, in three widths, light and dark.

A broker that wants users is started, with a little shop in it: topics, a consumer group that is behind, a queue whose
workers accept, release and reject, an open transaction, users with rules and quotas, runs of pipelines. `make
screenshots` does it.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from penstock.client.admin import Admin, ClientQuotaEntity, ResourceType
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.console.names import encode_name
from penstock.testing.broker import Broker
from tests.console.conftest import login_settings, served

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
    "user": "/access/users/ada?operation=write&type=topic&name=payments",
    "pipelines": "/pipelines",
    "pipeline": "/pipelines/orders",
}
FORMS = {
    "login": ("/login", None),
    "reset": ("/groups/reports", "Preview the reset"),
    "delete": ("/topics/audit", "Delete the topic"),
}
"""Pages that are photographed before the login, or once a button has been pressed."""
CLIENT = "client"
USERS = {"root": "root", "ada": "ada"}
RULES = ("ada all topic orders", "ada read topic payments", "ada all group billing")
SIZES = {"wide": (2000, 1100), "desk": (1280, 860), "narrow": (400, 800)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
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
        limits = {"producer_byte_rate": 5_000_000.0, "request_percentage": 50.0}
        await admin.alter_client_quotas({ClientQuotaEntity(user="ada"): limits})


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


async def hold(settings: dict[str, Any], until: threading.Event) -> None:
    """A transaction that stays open."""
    async with Producer(settings, transactional_id="settlement", transaction_timeout_ms=600_000) as producer:
        producer.begin_transaction()
        await producer.send("audit", "opened")
        await producer.flush()
        await asyncio.to_thread(until.wait)


def run_pipelines(folder: Path) -> None:
    """Histories of two pipelines, the last run of one of which has failed."""
    for name, failure in (("orders", ""), ("payments", "S3 answered 503 Slow Down; nothing was committed")):
        (folder / name).mkdir()
        runs = []
        for number in range(6):
            run: dict[str, object] = {"pipeline": name, "started": f"2026-08-01T{8 + number:02}:00:00+00:00"}
            run |= {"seconds": 2.4 + number / 3, "rows": 48_000 + 913 * number, "bytes": 9_000_000, "files": 3}
            run |= {"tasks": 6, "lag_before": 48_000 + 913 * number, "lag_after": 0, "error": ""}
            if failure and number == 5:
                run |= {"rows": None, "lag_after": None, "error": failure}
            runs.append(json.dumps(run))
        (folder / name / "history.jsonl").write_text("\n".join(runs) + "\n")


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
    settings = broker.client_settings("root")
    until = threading.Event()
    work: list[Coroutine[Any, Any, None]] = [
        sell(settings, until),
        hold(settings, until),
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


def photograph(address: str, folder: Path, names: list[str]) -> None:
    from playwright.sync_api import Page, sync_playwright

    def take(page: Page, name: str) -> None:
        page.wait_for_timeout(_SETTLE_MS)
        page.screenshot(path=str(folder / f"{name}.png"))
        print(name, flush=True)

    def visit(page: Page, kind: str) -> None:
        """Every page of one size, in one of the two schemes."""
        page.goto("/login")
        if "login" in names:
            take(page, f"login-{kind}")
        page.fill("[name=user]", "root")
        page.fill("[name=password]", "root")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Overview").wait_for()
        for name, path in PAGES.items():
            if name in names:
                page.goto(path)
                take(page, f"{name}-{kind}")
        for name, (path, button) in FORMS.items():
            if name in names and button is not None:
                page.goto(path)
                page.locator("details.more summary").first.click()
                page.get_by_role("button", name=button).click()
                take(page, f"{name}-{kind}")
        clients = page.request.get("/clients.json").json()["clients"]
        if CLIENT in names and clients:
            page.goto(f"/clients/{encode_name(clients[0]['clientInstanceId'])}")
            take(page, f"{CLIENT}-{kind}")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                context = browser.new_context(
                    base_url=address, viewport={"width": width, "height": height}, color_scheme=scheme
                )
                visit(context.new_page(), f"{size}-{scheme}")
                context.close()
        browser.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or [*PAGES, *FORMS, CLIENT]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    security: dict[str, Any] = {"users": USERS, "acls": RULES, "super_users": ["root"]}
    with (
        Broker({"penstock.metrics.listen": f"127.0.0.1:{port}"}, **security) as broker,
        shop(broker),
        tempfile.TemporaryDirectory() as pipelines,
    ):
        run_pipelines(Path(pipelines))
        with served(login_settings(broker), pipelines=Path(pipelines)) as address:
            photograph(address, folder, names)


if __name__ == "__main__":
    main()
