"""The console in front of Apache Kafka: what the protocol tells is shown, what only Penstock tells is left out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from tests.console.conftest import ADDRESS, ORIGIN, Visitor, served, watched_page
from tests.console.test_walk import LOOK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaPeer]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with KafkaPeer(settings, jvm_options=SMALL_JVM_OPTIONS) as peer:
        asyncio.run(furnish({"bootstrap_servers": peer.bootstrap}))
        yield peer


@pytest.fixture
def page(browser: Browser, kafka: KafkaPeer) -> Iterator[Page]:
    with served({"bootstrap_servers": kafka.bootstrap}) as address, watched_page(browser, address) as opened:
        yield opened


async def produce(kafka: KafkaPeer, value: str) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait("orders", value, partition=1)


async def furnish(settings: dict[str, Any]) -> None:
    """A topic of a hundred records, a group that has committed some, and a queue."""
    async with Admin(settings) as admin, Producer(settings) as producer:
        await admin.create_topic("orders", 2, 1)
        for number in range(100):
            await producer.send("orders", json.dumps({"n": number}), key=f"k{number}", partition=number % 2)
        await producer.flush()
        async with Consumer(settings, group_id="billing", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            while not await consumer.poll(1_000, max_records=10):
                pass
            await consumer.commit({("orders", 0): 10, ("orders", 1): 0})
        await admin.alter_share_group_offsets("packing", {("orders", 0): 5})


@pytest.fixture(scope="module")
def console(kafka: KafkaPeer) -> Iterator[Visitor]:
    app = create_app({"bootstrap_servers": kafka.bootstrap}, allowed_hosts(ADDRESS))
    with Visitor(app, base_url=ORIGIN) as visitor:
        yield visitor


PAGES = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/configs",
    "/topics/orders/messages",
    "/topics/orders/messages/0/3",
    "/topics/orders/produce",
    "/groups",
    "/groups/billing",
    "/queues",
    "/queues/packing",
    "/queues/packing/dead-letters",
    "/transactions",
    "/cluster",
    "/clients",
    "/access",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens(console: Visitor, path: str) -> None:
    answer = console.get(path)
    assert answer.status_code == 200, answer.text


def test_lag_and_readers_come_from_the_protocol(console: Visitor) -> None:
    shown = console.get("/index.json").json()
    assert not shown["watched"]
    assert {"name": "billing", "lag": 90}.items() <= shown["groups"][0].items()
    assert [reader["name"] for reader in console.get("/topics/orders.json").json()["groups"]] == ["billing", "packing"]


def test_messages_are_searched(console: Visitor) -> None:
    query = "/topics/orders/messages.json?from=beginning&by=expression&q=%24.n%20%3E%3D%2098"
    assert sorted(record["key"] for record in console.get(query).json()["records"]) == ["k98", "k99"]
    commits = console.get("/topics/__consumer_offsets/messages.json?from=beginning&q=orders").json()["records"]
    assert {json.loads(commit["key"])["group"] for commit in commits if "OffsetCommit" in commit["key"]} == {"billing"}


def test_a_record_is_produced_and_a_group_reset(console: Visitor) -> None:
    assert "at offset 50" in console.submit("/topics/orders/produce", value="x", partition="0").text
    assert "new offsets" in console.submit("/groups/billing/reset", topic="orders", kind="earliest").text
    assert {p["committed"] for p in console.get("/groups/billing.json").json()["partitions"]} == {0}


def test_in_a_browser_every_page_is_live_and_can_be_read(page: Page) -> None:
    for path in PAGES:
        page.goto(path)
        if page.locator("main[data-live]").count():
            page.locator("#pulse.on").wait_for(state="attached")
        for width in (400, 2_000):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(LOOK) == [], f"{path} at {width} pixels"


def test_in_a_browser_numbers_move_a_search_finds_and_a_reset_is_previewed(page: Page, kafka: KafkaPeer) -> None:
    page.goto("/topics/orders")
    records = page.locator(".facts dd").nth(1)
    before = int(records.inner_text())
    asyncio.run(produce(kafka, "a needle"))
    records.filter(has_text=str(before + 1)).wait_for()
    page.goto("/topics/orders/messages?from=beginning&q=needle")
    page.locator("#rows tr").filter(has_text="a needle").wait_for()
    page.goto("/topics/orders/messages?from=live")
    page.locator("#progress-text").filter(has_text="following").wait_for()
    asyncio.run(produce(kafka, "while somebody looks"))
    page.locator("#rows tr").filter(has_text="while somebody looks").wait_for()
    page.goto("/groups/billing")
    page.locator("#change summary").click()
    page.select_option("[name=kind]", "latest")
    page.get_by_role("button", name="Preview the reset").click()
    page.locator("pre.command").filter(has_text="group reset-offsets billing --topic orders --to-latest").wait_for()
    page.get_by_role("button", name="Reset", exact=True).click()
    page.locator(".notice").filter(has_text="goes on at its new offsets").wait_for()
    page.locator(".facts div").filter(has_text="Lag").locator("dd").filter(has_text="0").wait_for()
