"""Every page in a real browser: it fits, can be read and used without a mouse, and its numbers are the cluster's."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

from penstock.client.admin import Admin, ClientQuotaEntity, ResourceType
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.console.formats import count, plural
from penstock.console.names import encode_name
from penstock.testing.broker import Broker
from tests.console.conftest import USERS, free_port, login_settings, run, served, until
from tests.console.test_routes import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")
pytestmark = pytest.mark.timeout(300)
TOPIC, RECORDS, LETTERS = "walk.orders", 60, 3
NAMES = {
    "topics": TOPIC,
    "groups": "walk.billing",
    "queues": "walk.packing",
    "pipelines": "walk",
    "access": "alice",
}
LONG = "w" * 249
ADDRESSES = {
    **dict.fromkeys(PAGES, ""),
    "/topics/{name}/messages": "?from=beginning&q=%24.n%20%3E%3D%2010",
    "/access/users/{name}": "?operation=write&type=topic&name=secrets",
}
"""Every page of the table in test_routes, with the query that it is opened with."""

LOOK = """() => {
  const problems = [];
  const say = (element, words) => problems.push(`${words}: ${element.outerHTML.slice(0, 160)}`);
  for (const details of document.querySelectorAll("details")) details.open = true;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = (e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll, pre");
    say([...document.querySelectorAll("body *")].find(wide) || root, `the page is ${root.scrollWidth} pixels wide`);
  }
  for (const cell of document.querySelectorAll("td, th")) {
    if (!cell.checkVisibility()) continue;
    const isCut = getComputedStyle(cell).overflowX !== "visible";
    if (!isCut && cell.scrollWidth > cell.clientWidth + 1) say(cell, "a cell whose content reaches into the next");
    const ends = (each) => each.getBoundingClientRect().right;
    if (cell.matches(".empty") && ends(cell) > ends(cell.closest(".scroll")) + 1) say(cell, "words out of sight");
  }
  const controls = document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary");
  for (const control of controls) {
    if (!control.checkVisibility() || control.disabled) continue;
    const label = control.labels && control.labels.length ? control.labels[0].textContent : "";
    if (!(control.textContent.trim() || control.ariaLabel || label.trim())) say(control, "a control without a name");
    if (control.tabIndex !== 0) say(control, "out of the keyboard's reach");
  }
  const luminance = (colour) => {
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = colour.map((part) => linear(part / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parts(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return parts(getComputedStyle(root).backgroundColor);
  };
  const seen = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || !element.checkVisibility() || element.disabled || element.closest("option, svg")) continue;
    const colours = [parts(getComputedStyle(element).color).slice(0, 3), ground(element).slice(0, 3)];
    const [light, dark] = colours.map(luminance).sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    const key = colours.join(" on ");
    if (contrast < 4.5 && !seen.has(key)) say(element, `${contrast.toFixed(1)} is too little contrast, ${key}`);
    seen.add(key);
  }
  return problems;
}"""
"""What is wrong with a page as it is shown now: widths, names and reach of its controls, contrast of its text."""

READ = """() => {
  const first = (fact) => (fact.firstElementChild?.tagName === "A" ? fact : fact.firstChild).textContent.trim();
  const text = (cell) => (cell.querySelector("input:not([type=hidden])") || {}).value || cell.innerText.trim();
  return {
    ground: getComputedStyle(document.documentElement).backgroundColor,
    facts: Object.fromEntries([...document.querySelectorAll(".facts div")].map(
      (fact) => [fact.children[0].innerText, first(fact.children[1])])),
    rows: [...document.querySelectorAll("main tbody tr")].map((row) => [...row.cells].map(text)),
    words: document.getElementById("main").innerText,
  };
}"""


@dataclass
class Shown:
    """What a page has to show: its facts, the beginnings of rows, words."""

    facts: dict[str, object] = field(default_factory=dict)
    rows: list[list[object]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


async def of_overview(admin: Admin) -> Shown:
    cluster, topics = await admin.describe_cluster(), await admin.list_topics()
    partitions = sum(len(topic.partitions) for topic in topics)
    facts: dict[str, object] = {"Brokers": len(cluster.nodes), "Topics": len(topics), "Partitions": partitions}
    return Shown(facts, [[NAMES["groups"], RECORDS - 20], [NAMES["queues"], await _lag_of_queue(admin)]])


async def of_topics(admin: Admin) -> Shown:
    return Shown(rows=[[topic.name, len(topic.partitions), 1] for topic in await admin.list_topics()])


async def of_topic(admin: Admin) -> Shown:
    info = await admin.describe_topic(TOPIC)
    rows: list[list[object]] = []
    for number, partition in info.partitions.items():
        first, end = [await _offset(admin, number, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)]
        rows.append([number, partition.leader, partition.replicas[0], partition.isr[0], first, end, end - first])
    return Shown({"Partitions": len(rows), "Records": RECORDS}, rows)


async def of_configs(admin: Admin) -> Shown:
    configs = await admin.describe_configs(ResourceType.TOPIC, TOPIC)
    return Shown(rows=[[name, config.value] for name, config in configs.items() if not config.read_only])


async def of_messages(admin: Admin) -> Shown:
    return Shown(words=[f"{RECORDS - 10} found in {RECORDS} of {RECORDS} records"])


async def of_record(admin: Admin) -> Shown:
    return Shown({"Format": "json"}, words=['"n": 0'])


async def of_groups(admin: Admin) -> Shown:
    (found,) = [group for group in await admin.list_groups() if group.group_id == NAMES["groups"]]
    return Shown(rows=[[found.group_id, found.state, found.type, TOPIC, RECORDS - 20]])


async def of_group(admin: Admin) -> Shown:
    offsets = await admin.list_group_offsets(NAMES["groups"])
    ends = {tp: await _offset(admin, tp.partition, OffsetSpec.LATEST) for tp in offsets}
    rows = [[TOPIC, tp.partition, at.offset, ends[tp], ends[tp] - at.offset] for tp, at in offsets.items()]
    members = (await admin.describe_group(NAMES["groups"])).members
    return Shown({"Members": len(members), "Lag": sum(int(str(row[4])) for row in rows)}, rows, [members[0].member_id])


async def of_queues(admin: Admin) -> Shown:
    return Shown(rows=[[NAMES["queues"], "Stable", TOPIC, await _lag_of_queue(admin)]])


async def of_queue(admin: Admin) -> Shown:
    offsets = await admin.list_share_group_offsets(NAMES["queues"])
    rows: list[list[object]] = [
        [TOPIC, tp.partition, at.start_offset, await _offset(admin, tp.partition, OffsetSpec.LATEST), at.lag]
        for tp, at in offsets.items()
    ]
    return Shown({"Workers": 1, "Lag": await _lag_of_queue(admin)}, rows, ["Dead letters: 3", "acquired"])


async def of_letters(admin: Admin) -> Shown:
    end = (await admin.list_offsets({("dlq.walk", 0): int(OffsetSpec.LATEST)}))[TopicPartition("dlq.walk", 0)].offset
    return Shown(words=[f"{end} letters in dlq.walk"])


async def of_transactions(admin: Admin) -> Shown:
    (open_one,) = await admin.list_transactions(states=["Ongoing"])
    return Shown(rows=[[open_one.transactional_id, open_one.state]])


async def of_clients(admin: Admin) -> Shown:
    return Shown(words=["penstock-console", "walk-worker"])


async def of_client(admin: Admin) -> Shown:
    return Shown(words=["org.apache.kafka."])


async def of_cluster(admin: Admin) -> Shown:
    cluster, topics = await admin.describe_cluster(), await admin.list_topics(include_internal=True)
    (node,) = cluster.nodes
    leads = sum(len(topic.partitions) for topic in topics)
    row = [node.node_id, f"{node.host}:{node.port} controller", "–", leads, leads, 0]
    return Shown({"Cluster id": cluster.cluster_id, "Brokers": 1, "Partitions without leader": 0}, [row])


async def of_pipelines(admin: Admin) -> Shown:
    return Shown(rows=[["walk", "2026-08-01 12:00:00", "it broke"]])


async def of_pipeline(admin: Admin) -> Shown:
    return Shown(rows=[["2026-08-01 12:00:00", "ok", "2.0 s", 5_000]])


async def of_access(admin: Admin) -> Shown:
    users = await admin.describe_user_scram_credentials()
    rows: list[list[object]] = [
        [user, ", ".join(info.mechanism.sasl_name for info in infos)] for user, infos in users.items()
    ]
    rules = len(await admin.describe_acls())
    return Shown(rows=[*rows, ["user alice", "bytes/s produced", 1_000]], words=[plural(rules, "rule")])


async def of_user(admin: Admin) -> Shown:
    return Shown(words=["may not write", "penstock acl add alice --write secrets", "topic orders"])


async def of_forms(admin: Admin) -> Shown:
    return Shown()


SHOWN: dict[str, Callable[[Admin], Awaitable[Shown]]] = {
    "/": of_overview,
    "/topics": of_topics,
    "/topics/new": of_forms,
    "/topics/{name}": of_topic,
    "/topics/{name}/configs": of_configs,
    "/topics/{name}/messages": of_messages,
    "/topics/{name}/messages/{partition:int}/{offset:int}": of_record,
    "/topics/{name}/produce": of_forms,
    "/groups": of_groups,
    "/groups/{name}": of_group,
    "/queues": of_queues,
    "/queues/{name}": of_queue,
    "/queues/{name}/dead-letters": of_letters,
    "/transactions": of_transactions,
    "/clients": of_clients,
    "/clients/{name}": of_client,
    "/cluster": of_cluster,
    "/pipelines": of_pipelines,
    "/pipelines/{name}": of_pipeline,
    "/access": of_access,
    "/access/users/{name}": of_user,
}
"""What each page of the table in test_routes has to show, as the Admin client reads it."""


async def _offset(admin: Admin, partition: int, spec: OffsetSpec) -> int:
    tp = TopicPartition(TOPIC, partition)
    return (await admin.list_offsets({tp: int(spec)}))[tp].offset


async def _lag_of_queue(admin: Admin) -> int:
    return sum(at.lag for at in (await admin.list_share_group_offsets(NAMES["queues"])).values())


async def furnish(settings: dict[str, str]) -> None:
    async with Admin(settings) as admin, Producer(settings) as producer:
        await admin.create_topic(TOPIC, 3)
        await admin.create_topic(LONG)
        await admin.create_topic("dlq.walk", configs={"errors.deadletterqueue.group.enable": "true"})
        configs = {"errors.deadletterqueue.topic.name": "dlq.walk", "share.auto.offset.reset": "earliest"}
        await admin.alter_configs(ResourceType.GROUP, NAMES["queues"], configs)
        await admin.alter_configs(ResourceType.CLIENT_METRICS, "walk", {"metrics": "*", "interval.ms": "100"})
        await admin.alter_client_quotas({ClientQuotaEntity(user="alice"): {"producer_byte_rate": 1_000.0}})
        await admin.alter_group_offsets(LONG, {(LONG, 0): 0})
        await admin.alter_share_group_offsets(f"{LONG}-queue", {(LONG, 0): 0})
        for number in range(RECORDS):
            value = json.dumps({"n": number, "long": "x" * 2_000 if number == 7 else ""})
            await producer.send(TOPIC, value, key=f"k{number}", partition=number % 3)
        await producer.send(LONG, b"y" * 3_000, key=b"z" * 300, headers=[("h" * 200, b"w" * 200)])
        await producer.flush()
        await admin.alter_group_offsets(NAMES["groups"], {(TOPIC, 0): 20, (TOPIC, 1): 0, (TOPIC, 2): 0})


async def live_there(settings: dict[str, str], is_ready: threading.Event, leave: threading.Event) -> None:
    """An open transaction, a member of the group, and a worker that has rejected some records and holds the others."""
    async with (
        Producer(settings, transactional_id="walk.transaction", transaction_timeout_ms=600_000) as producer,
        Consumer(settings, group_id=NAMES["groups"], client_id="walk-reader", enable_auto_commit=False) as reader,
        ShareConsumer(
            settings, group_id=NAMES["queues"], client_id="walk-worker", share_acknowledgement_mode="explicit"
        ) as worker,
    ):
        producer.begin_transaction()
        await producer.send(LONG, b"open")
        await producer.flush()
        reader.subscribe([TOPIC])
        while not await reader.poll(timeout_ms=20_000):
            pass
        worker.subscribe([TOPIC])
        for number, record in enumerate(await worker.poll(timeout_ms=20_000)):
            worker.acknowledge(record, AcknowledgeType.REJECT if number < LETTERS else AcknowledgeType.RELEASE)
        await worker.commit()
        await worker.poll(timeout_ms=20_000)
        is_ready.set()
        await asyncio.to_thread(leave.wait)


@pytest.fixture(scope="module")
def shop() -> Iterator[Broker]:
    """A broker with something to see on every page: records, groups, a queue, an open transaction, users and rules."""
    is_ready, leave = threading.Event(), threading.Event()
    configs = {"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}
    security: dict[str, Any] = {"users": USERS, "acls": ["alice all topic orders"], "super_users": ["root"]}
    with Broker(configs, **security) as broker, ThreadPoolExecutor(1) as thread:
        settings = broker.client_settings("root")
        run(furnish(settings))
        work = thread.submit(asyncio.run, live_there(settings, is_ready, leave))
        assert is_ready.wait(60), work.exception(0)
        yield broker
        leave.set()
        work.result(60)


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "walk").mkdir()
    started = {"pipeline": "walk", "started": "2026-08-01T12:00:00+00:00", "seconds": 2.0}
    runs: list[dict[str, object]] = [
        {"rows": 5_000, "lag_before": 5_000, "lag_after": 0, "error": ""},
        {"error": "it broke"},
    ]
    lines = [json.dumps({**started, **each}) for each in runs]
    (folder / "walk" / "history.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def visit(browser: Browser, shop: Broker, pipelines: Path) -> Iterator[tuple[Page, list[str]]]:
    """A page of somebody who is logged in as root, and the complaints: errors, and requests to other origins."""
    complaints: list[str] = []
    with served(login_settings(shop), pipelines=pipelines) as address:
        context = browser.new_context(base_url=address)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda made: None if made.url.startswith(f"{address}/") else complaints.append(made.url))
        page.goto("/login")
        page.locator("[name=user]:focus").wait_for()
        page.keyboard.type("root")
        page.keyboard.press("Tab")
        page.keyboard.type("root")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Overview").wait_for()
        yield page, complaints
        context.close()


LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((400, "dark"), (2_000, "light"))


def show(page: Page, width: int, scheme: Literal["light", "dark"]) -> dict[str, Any]:
    """What the page shows at this width, in these colours; what is wrong with it fails the test."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate(LOOK) == [], f"{width} pixels, {scheme}"
    shown: dict[str, Any] = page.evaluate(READ)
    return shown


def address_of(page: Page, path: str) -> str:
    if path == "/clients/{name}":
        clients = until(lambda: page.request.get("/clients.json").json()["clients"] or None, "a report of a client")
        return f"/clients/{encode_name(clients[0]['clientInstanceId'])}"
    name = encode_name(NAMES.get(path.split("/")[1], ""))
    filled = path.replace("{name}", name).replace("{partition:int}", "0").replace("{offset:int}", "0")
    return filled + ADDRESSES[path]


@pytest.mark.parametrize("path", sorted(PAGES))
def test_a_page_fits_can_be_read_and_used_and_shows_the_numbers_of_the_admin_client(
    visit: tuple[Page, list[str]], shop: Broker, path: str
) -> None:
    page, complaints = visit
    page.goto(address_of(page, path))
    if page.locator("main[data-live]").count():
        page.locator("#pulse.on").wait_for(state="attached")
    if page.locator("#search").count():
        page.locator("#search[data-state=done]").wait_for()
    light, dark = show(page, 400, "light"), show(page, 2_000, "dark")
    assert light["ground"] != dark["ground"]
    expected = run(read(shop, SHOWN[path]))
    for key, value in expected.facts.items():
        assert dark["facts"][key] == _words(value)
    for row in expected.rows:
        cells = [_words(cell) for cell in row]
        assert cells in [found[: len(cells)] for found in dark["rows"]], dark["rows"]
    for words in expected.words:
        assert words in dark["words"]
    assert complaints == []


def test_without_a_mouse_a_person_finds_a_group_resets_it_after_a_preview_and_logs_out(
    visit: tuple[Page, list[str]], shop: Broker
) -> None:
    page, complaints = visit
    focused = "() => document.activeElement.outerHTML"

    def tab_to(words: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if words in page.evaluate(focused):
                return
        raise AssertionError(f"the keyboard does not reach {words!r}")

    def arrive(heading: str) -> None:
        page.locator("h1").filter(has_text=heading).wait_for()
        page.wait_for_load_state()

    async def committed(admin: Admin) -> int:
        return (await admin.list_group_offsets(LONG))[TopicPartition(LONG, 0)].offset

    page.goto("/")
    page.keyboard.press("?")
    page.locator("#keys[open]").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("g")
    arrive("Groups")
    page.keyboard.press("/")
    page.keyboard.type("www")
    page.keyboard.press("Enter")
    page.locator("input[name=q][value=www]").wait_for()
    arrive("Groups")
    page.keyboard.press("Tab")
    assert "Skip to the page" in page.evaluate(focused)
    page.keyboard.press("Enter")
    tab_to("to-www")
    page.keyboard.press("Enter")
    arrive(LONG)
    tab_to("Reset offsets, or delete this group")
    page.keyboard.press("Enter")
    tab_to('name="kind"')
    page.keyboard.type("the next")
    tab_to("Preview the reset")
    page.keyboard.press("Enter")
    arrive("Reset group")
    for width, scheme in LOOKS:
        assert show(page, width, scheme)["rows"] == [[f"{LONG}-0", "0", "2", "+2"]]
    assert f"group reset-offsets {LONG} --topic {LONG} --to-latest" in page.locator("pre.command").inner_text()
    assert run(read(shop, committed)) == 0
    page.keyboard.press("Enter")
    page.locator(".notice").filter(has_text="goes on at its new offsets").wait_for()
    arrive(LONG)
    assert run(read(shop, committed)) == 2
    tab_to("Log out")
    page.keyboard.press("Enter")
    arrive("Log in to Penstock")
    for width, scheme in LOOKS:
        show(page, width, scheme)
    assert complaints == []


async def read(broker: Broker, work: Callable[[Admin], Awaitable[T]]) -> T:
    async with Admin(broker.client_settings("root")) as admin:
        return await work(admin)


def _words(value: object) -> str:
    return count(value) if isinstance(value, int) else str(value)
