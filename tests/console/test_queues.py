"""The pages of queues: what a worker takes, releases and rejects can be seen record by record."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.admin import ResourceType
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, run, until

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def queue(broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]) -> str:
    """A topic of six records, and a queue of the same name that begins with the first."""
    broker.create_topic(fresh)
    produce(fresh, *[b"x"] * 6)
    with_admin(lambda admin: admin.alter_share_group_offsets(fresh, {(fresh, 0): 0}))
    return fresh


def test_what_a_worker_holds_is_shown_with_its_holder(console: Visitor, broker: Broker, queue: str) -> None:
    async def work() -> Any:
        settings = broker.client_settings()
        async with ShareConsumer(settings, group_id=queue, client_id="worker") as consumer:
            consumer.subscribe([queue])
            assert len(await consumer.poll(timeout_ms=20_000)) == 6
            return await asyncio.to_thread(lambda: console.get(f"/queues/{queue}.json").json())

    shown = run(work())
    (window,), (member,) = shown["windows"], shown["members"]
    assert sum(run["count"] for run in window["records"]) == 6
    assert {(run["state"], run["memberId"]) for run in window["records"]} == {("ACQUIRED", member["member"])}
    assert (member["client"], member["holds"], shown["lag"]) == ("worker", 6, 6)
    assert 0 < member["nextLockEndsSeconds"] <= 30
    assert 0 <= member["oldestHeldSeconds"] < 30
    assert member["takesPerSecond"] > 0
    assert (member["completesPerSecond"], member["lastAcknowledgementSeconds"]) == (0, None)
    assert (member["isGone"], member["isSilent"]) == (False, False)
    assert [p["start"] for p in shown["partitions"]] == [0]


def test_windows_are_drawn_fifty_at_a_time_and_counted_all(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh, 60)
    for partition in range(60):
        produce(fresh, b"x", partition=partition)
    with_admin(lambda admin: admin.alter_share_group_offsets(fresh, {(fresh, each): 0 for each in range(60)}))

    async def work() -> list[Any]:
        async with ShareConsumer(broker.client_settings(), group_id=fresh) as consumer:
            consumer.subscribe([fresh])
            taken = 0
            while taken < 60:
                taken += len(await consumer.poll(timeout_ms=20_000))
                if taken < 60:
                    await consumer.commit()
            pages = [f"/queues/{fresh}.json?page={number}" for number in (1, 2, 3)]
            texts = [f"/queues/{fresh}?page={number}" for number in (1, 2)]
            return [
                *[(await asyncio.to_thread(console.get, path)).json() for path in pages],
                *[(await asyncio.to_thread(console.get, path)).text for path in texts],
            ]

    first, second, beyond, first_text, second_text = run(work())
    assert [window["partition"] for window in first["windows"]] == list(range(50))
    assert [window["partition"] for window in second["windows"]] == list(range(50, 60))
    assert all("records" in window for page in (first, second) for window in page["windows"])
    assert (first["page"], second["page"], beyond["page"], first["pages"]) == (1, 2, 2, 2)
    assert first["members"][0]["holds"] == second["members"][0]["holds"]
    assert "windows 1 of 2, 60 partitions" in first_text
    assert 'rel="next"' in first_text
    assert 'rel="next"' not in second_text
    assert f'id="window-{fresh}-59"' in second_text


def test_the_list_names_queues_and_groups_do_not(console: Visitor, queue: str) -> None:
    def aged() -> Any:
        (row,) = [row for row in console.get("/queues.json").json()["queues"] if row["queue"] == queue]
        return row if row["ageSeconds"] is not None else None

    row = until(aged, "its age")
    assert (row["lag"], row["topics"]) == (6, [queue])
    assert queue not in [row["group"] for row in console.get("/groups.json").json()["groups"]]
    assert console.get(f"/groups/{queue}").status_code == 404
    assert queue in console.get("/queues").text


def test_a_queue_is_reset_and_deleted(console: Visitor, queue: str, with_admin: Callable[..., Any]) -> None:
    asked = console.submit(f"/queues/{queue}/reset", consent=False, topic=queue, kind="offset", value="5")
    assert f"penstock share reset-offsets {queue} --topic {queue} --to-offset 5 --execute" in asked.text
    console.submit(f"/queues/{queue}/reset", topic=queue, kind="offset", value="5")
    assert with_admin(lambda admin: admin.list_share_group_offsets(queue))[queue, 0].start_offset == 5
    assert console.submit(f"/queues/{queue}/reset", topic=queue, kind="shift", value="1").status_code == 400
    assert f"Queue {queue} is deleted." in console.submit(f"/queues/{queue}/delete").text


def test_dead_letters_are_looked_at_and_put_back_one_or_all(
    console: Visitor, broker: Broker, queue: str, with_admin: Callable[..., Any]
) -> None:
    topic = f"dlq.{queue}"
    broker.create_topic(topic, errors_deadletterqueue_group_enable="true")
    configs = {"errors.deadletterqueue.topic.name": topic}
    with_admin(lambda admin: admin.alter_configs(ResourceType.GROUP, queue, configs))

    async def reject() -> None:
        settings = broker.client_settings()
        async with ShareConsumer(settings, group_id=queue, share_acknowledgement_mode="explicit") as consumer:
            consumer.subscribe([queue])
            for record in await consumer.poll(timeout_ms=20_000):
                consumer.acknowledge(record, AcknowledgeType.REJECT)
            await consumer.commit()

    run(reject())
    path = f"/queues/{queue}/dead-letters"

    def waiting() -> list[int]:
        return [letter["record"]["offset"] for letter in console.get(f"{path}.json").json()["letters"]]

    assert waiting() == [0, 1, 2, 3, 4, 5]
    assert topic in console.get(f"/queues/{queue}").text
    third = console.get(f"{path}.json").json()["letters"][2]
    place = {"partition": third["partition"], "offset": third["offset"]}
    asked = console.submit(f"/queues/{queue}/redrive", consent=False, **place)
    assert f"penstock share redrive {queue} --letter {third['partition']}:{third['offset']}" in asked.text
    assert "Put back: 1 record." in console.submit(f"/queues/{queue}/redrive", **place).text
    assert waiting() == [0, 1, 3, 4, 5]
    assert console.submit(f"/queues/{queue}/redrive", **place).status_code == 400
    assert "Put back: 5 records." in console.submit(f"/queues/{queue}/redrive").text
    assert waiting() == []
    back = console.get(f"/topics/{queue}/messages.json?from=offset&at=6&by=header&q=penstock.redriven").json()
    assert [record["value"] for record in back["records"]] == ["x"] * 6


def look_at_records(page: Page, queue: str) -> None:
    """With the pointer and with the keyboard a record's holder, time left and deliveries are told, and it opens."""
    line = page.locator(".pointed")
    page.locator(".strip i").nth(1).hover()
    line.locator("a").filter(has_text="offset 1").wait_for()
    assert re.fullmatch(r"acquired, by worker, \d+ s left, delivery 1 of 5", line.locator("span").inner_text())
    page.locator(".strip").focus()
    for key, offset in (("ArrowRight", 2), ("End", 5), ("ArrowLeft", 4), ("Home", 0)):
        page.keyboard.press(key)
        line.locator("a").filter(has_text=f"offset {offset}").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/topics/{queue}/messages/0/0")
    page.go_back()
    page.locator(".strip .acquired i").nth(5).wait_for()


@pytest.mark.timeout(300)
def test_in_a_browser_a_strip_follows_a_worker(browser_page: Page, broker: Broker, queue: str) -> None:
    steps: asyncio.Queue[str] = asyncio.Queue()
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        settings = broker.client_settings()
        async with ShareConsumer(
            settings, group_id=queue, client_id="worker", share_acknowledgement_mode="explicit"
        ) as consumer:
            consumer.subscribe([queue])
            records = await consumer.poll(timeout_ms=20_000)
            await steps.get()
            for record, kind in zip(
                records, ["RELEASE", "ACCEPT", "REJECT", "ACCEPT", "ACCEPT", "ACCEPT"], strict=True
            ):
                consumer.acknowledge(record, AcknowledgeType[kind])
            await consumer.commit()
            await steps.get()

    from threading import Thread

    browser_page.goto(f"/queues/{queue}")
    worker = Thread(target=lambda: run(work()))
    worker.start()
    try:
        strips = browser_page.locator(".strip")
        strips.locator(".acquired i").nth(5).wait_for()
        look_at_records(browser_page, queue)
        loops[0].call_soon_threadsafe(steps.put_nowait, "answer")
        strips.locator(".acquired i").nth(0).wait_for(state="detached")
        strips.locator("b[data-first='0'][data-words*='delivery']").wait_for()
        for state, first, length in (("acknowledged", 1, 1), ("archived", 2, 1), ("acknowledged", 3, 3)):
            cells = strips.locator(f"b.{state}[data-first='{first}'] i")
            cells.nth(length - 1).wait_for()
            assert cells.count() == length
    finally:

        def end() -> None:
            steps.put_nowait("end")
            steps.put_nowait("end")

        # Both words at once: with the first the worker may be gone, and its loop with it.
        loops[0].call_soon_threadsafe(end)
        worker.join(60)


MORPH = """() => {
  let number = 7;
  const chance = (below) => { number = (number * 1103515245 + 12345) % 2147483648; return number % below; };
  const strip = (start) => {
    const made = document.createElement("div");
    for (let first = start; first < start + 20; ) {
      const length = 1 + chance(4);
      const state = ["available", "acquired", "archived"][chance(3)];
      const cells = `<i>${chance(2) ? 2 : ""}</i>`.repeat(length);
      const words = `${state}, ${chance(9)} s left`;
      made.innerHTML += `<b class="${state}" data-first="${first}" data-words="${words}">${cells}</b>`;
      first += length + chance(3);  // where compaction has left no record there is no cell
    }
    return made;
  };
  const shown = strip(0);
  let start = 0;
  for (let round = 0; round < 300; round++) {
    start = Math.max(0, start + chance(7) - 2);
    const fresh = strip(start);
    const wanted = fresh.innerHTML;
    morphStrip(shown, fresh);
    if (shown.innerHTML !== wanted) return [round, wanted, shown.innerHTML];
  }
  return "as they are sent";
}"""


def test_in_a_browser_strips_become_what_is_sent_however_their_window_moves(browser_page: Page) -> None:
    browser_page.goto("/queues")
    assert browser_page.evaluate(MORPH) == "as they are sent"
