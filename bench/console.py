"""`python -m bench.console`: what the web console costs, and how long people wait for it.

A broker and its console run as processes, as `penstock serve --console` starts them. A topic holds a million records of
1 KiB, each a JSON document of eight fields; every filter finds a hundred of them. Of each search: the seconds until the
first hit is sent to the page, until the last record was read, and the largest memory of the console so far. With
chromium installed also how long a page of a topic with 10,000 partitions takes to open there, the memory of the page
that shows the hits, before and after, and how far the strip of a queue of which a worker holds 2,000 records is behind
the broker, also when every other of them is done: the seconds from the sending of an acknowledgement until the page
shows it.

With `--peer kafka` the console is in front of Apache Kafka, which shows no windows and so has no strips.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import click

from bench.peers import KafkaPeer
from penstock.client.admin import Admin, ResourceType
from penstock.client.producer import Producer
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.client.types import ConsumerRecord

_TOPIC, _WIDE, _QUEUE = "documents", "wide", "packing"
_LOCKS, _CHANGES = 2_000, 20
_EVERY = 10_000
_CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()), None)
SEARCHES = {
    "text": ("text", "needle-in-a-haystack"),
    "key": ("expression", 'key = "customer-4711"'),
    "header": ("expression", 'header.region = "antarctica"'),
    "JSON text": ("expression", '$.customer.city = "Ushuaia"'),
    "JSON number": ("expression", "$.total > 1000"),
    "regex": ("expression", r'value matches "needle-[\w-]+-haystack"'),
    "regex of keys": ("expression", r'key matches "^customer-47[1]\d$"'),
    "timestamp": ("expression", "timestamp < 1000"),
}
"""Where to look, and for what."""


def document(number: int, chance: random.Random) -> tuple[str, bytes, list[tuple[str, bytes]], int]:
    """Key, value, headers and timestamp of a record of 1 KiB; one of ten thousand is a hit of every search."""
    is_hit = number % _EVERY == _EVERY - 1
    value = {
        "order": number,
        "total": 1234.5 if is_hit else round(chance.uniform(1, 999), 2),
        "customer": {"id": chance.randrange(10_000), "city": "Ushuaia" if is_hit else "Oslo"},
        "lines": [{"article": f"A-{chance.randrange(900)}", "count": chance.randrange(1, 9)} for _ in range(4)],
        "paid": True,
        "note": "needle-in-a-haystack" if is_hit else "",
        "filler": "",
    }
    text = json.dumps(value)
    value["filler"] = chance.randbytes(512).hex()[: 1024 - len(text)]
    region = b"antarctica" if is_hit else b"europe"
    return (
        "customer-4711" if is_hit else f"customer-{number % 4000}",
        json.dumps(value).encode(),
        [("region", region)],
        1 if is_hit else 1_700_000_000_000 + number,
    )


async def furnish(bootstrap: str, records: int, partitions: int, wide: int) -> None:
    chance = random.Random(1)
    patience = {"bootstrap_servers": bootstrap, "request_timeout_ms": 300_000, "default_api_timeout_ms": 300_000}
    async with Admin(patience) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.create_topic(_TOPIC, partitions, 1, {"retention.ms": "-1"})  # its records are years old
        if wide:
            await admin.create_topic(_WIDE, wide, 1)
        for number in range(records):
            key, value, headers, timestamp = document(number, chance)
            await producer.send(
                _TOPIC, value, key=key, headers=headers, timestamp_ms=timestamp, partition=number % partitions
            )
        await producer.flush()


@contextmanager
def served(folder: str) -> Iterator[tuple[str, str, int]]:
    """A broker with a console that nobody has opened: their addresses, and the broker's process id."""
    line = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", folder]
    line += ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().split()[3]
        console = process.stdout.readline().split()[1].removeprefix("http://").rstrip("/")
        try:
            yield bootstrap, console, process.pid
        finally:
            process.terminate()


@contextmanager
def before_kafka() -> Iterator[tuple[str, str, int]]:
    """Apache Kafka and a console: their addresses, and the console's process id."""
    line = [sys.executable, "-m", "penstock.cli.main", "console", "--listen", "127.0.0.1:0", "--until-stdin-closes"]
    with (
        KafkaPeer() as peer,
        subprocess.Popen(
            [*line, "--bootstrap", peer.bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        console = process.stdout.readline().split()[1].removeprefix("http://").rstrip("/")
        yield peer.bootstrap, console, process.pid
        process.stdin.close()


def megabytes(process: int, what: str) -> float:
    """VmRSS or VmHWM of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what)) / 1024


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child_of(process: int) -> int:
    """The console of a broker."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields, line = (folder / "stat").read_text().rpartition(")")[2].split(), (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == process and "--until-stdin-closes" in line:
            return int(folder.name)
    raise click.ClickException("the broker has not started its console")


def search(address: str, by: str, text: str) -> tuple[float, float, str]:
    """Seconds until the first rows, and until the end, and what the page says then."""
    query = urlencode({"from": "beginning", "by": by, "q": text})
    connection = HTTPConnection(address, timeout=600)
    began, first, said, event = time.monotonic(), 0.0, "", ""
    connection.request("GET", f"/topics/{_TOPIC}/messages.live?{query}")
    answer = connection.getresponse()
    while line := answer.readline().decode():
        if line.startswith("event: "):
            event = line[7:].strip()
        elif line.startswith("data: ") and event in ("progress", "failed"):
            said = str(json.loads(line[6:])["text"] if event == "progress" else line[6:])
        elif line.startswith("data: ") and event == "rows":
            first = first or time.monotonic() - began
        if event in ("end", "failed") and line.startswith("data: "):
            break
    connection.close()
    return first, time.monotonic() - began, said


def in_browser(address: str, records: int) -> Iterator[str]:
    """What a person waits for, and the memory of the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(base_url=f"http://{address}")
        page.set_default_timeout(600_000)
        inspector = page.context.new_cdp_session(page)

        def heap() -> float:
            inspector.send("HeapProfiler.collectGarbage")
            return float(inspector.send("Runtime.getHeapUsage")["usedSize"]) / (1 << 20)

        page.goto(f"/topics/{_TOPIC}/messages")
        page.locator("#search[data-state=done]").wait_for()
        before = heap()
        page.goto(f"/topics/{_TOPIC}/messages?{urlencode({'from': 'beginning', 'by': 'value', 'q': 'order'})}")
        page.locator("#search[data-state=done]").wait_for()
        rows = page.locator("#rows tr").count()
        yield f"page: {before:.1f} MB with 50 rows, {heap():.1f} MB after {records:,} hits, of which it shows {rows}"
        for path in (f"/topics/{_WIDE}", "/topics", "/"):
            took = []
            for _ in range(5):
                began = time.monotonic()
                page.goto(path, wait_until="load")
                took.append(time.monotonic() - began)
            yield f"{path:14} {sorted(took)[2]:5.2f} s until it is shown, the first time {took[0]:5.2f} s"
        browser.close()


SHOWN = """(offset) => new Promise((done) => {
  const look = () => {
    const holds = (each) => offset >= +each.dataset.first && offset < +each.dataset.first + each.children.length;
    const run = [...document.querySelectorAll(".strip b")].find(holds);
    if (run && run.className === "acquired") setTimeout(look, 5); else done(Date.now());
  };
  look();
})"""
"""When the strip no longer shows the record at an offset as held, in milliseconds of the clock."""


async def follow_a_strip(bootstrap: str, address: str) -> AsyncIterator[str]:
    """The seconds by which a strip is behind, for acknowledgements of single records that are spread over it."""
    from playwright.async_api import async_playwright

    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.create_topic(_QUEUE, 1, 1)
        configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
        await admin.alter_configs(ResourceType.GROUP, _QUEUE, configs)
        for number in range(_LOCKS):
            await producer.send(_QUEUE, str(number))
        await producer.flush()

    step = _LOCKS // _CHANGES

    async def behind(some: list[ConsumerRecord[bytes, bytes]]) -> str:
        found = []
        for record in some:
            shown = asyncio.ensure_future(page.evaluate(SHOWN, record.offset))
            await asyncio.sleep(random.uniform(0.2, 0.6))  # at no particular moment between two readings
            began = time.time()
            worker.acknowledge(record, AcknowledgeType.ACCEPT)
            await worker.commit()
            found.append(await shown / 1000 - began)
        return f"behind by {sorted(found)[len(found) // 2]:.2f} s, at most {max(found):.2f} s"

    async with (
        ShareConsumer(
            bootstrap_servers=bootstrap,
            group_id=_QUEUE,
            share_acknowledgement_mode="explicit",
            max_poll_records=_LOCKS,
        ) as worker,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = await browser.new_page(base_url=f"http://{address}")
        worker.subscribe([_QUEUE])
        records = await worker.poll(timeout_ms=30_000)
        if len(records) < _LOCKS:
            raise click.ClickException(f"the worker was given {len(records)} records in place of {_LOCKS}")
        await page.goto(f"/queues/{_QUEUE}")
        await page.locator(".strip .acquired i").nth(_LOCKS - 1).wait_for(state="attached")
        yield f"strip of {_LOCKS:,} held records: {await behind(records[::step])}"
        for record in records[1::2]:
            worker.acknowledge(record, AcknowledgeType.ACCEPT)
        await worker.commit()
        await page.locator(".strip b.acknowledged").nth(_LOCKS // 2 - step).wait_for(state="attached")
        yield f"every other of them done: {await behind(records[step // 2 :: step])}"
        await browser.close()


async def strip_lines(bootstrap: str, address: str) -> list[str]:
    return [line async for line in follow_a_strip(bootstrap, address)]


def measure(address: str, console: int, records: int) -> Iterator[str]:
    """Every line but the first ones."""
    yield f"console, opened:                 {megabytes(console, 'VmRSS'):5.1f} MB"
    yield f"{records:,} records, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    for name, (by, text) in SEARCHES.items():
        worked = processor_seconds(console)
        first, whole, said = search(address, by, text)
        worked = processor_seconds(console) - worked
        yield (
            f"{name:14} first hit {first:5.2f} s, all {whole:5.2f} s ({worked:5.2f} s of a processor), "
            f"console at most {megabytes(console, 'VmHWM'):5.1f} MB: {said}"
        )
    if _CHROMIUM is not None:
        yield from in_browser(address, records)


def open_overview(address: str) -> None:
    connection = HTTPConnection(address, timeout=60)
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--peer", default="penstock", type=click.Choice(["penstock", "kafka"]), show_default=True)
@click.option("--records", default=1_000_000, show_default=True)
@click.option("--partitions", default=6, show_default=True)
@click.option("--wide", default=10_000, show_default=True, help="Partitions of the topic that is only looked at.")
def main(peer: str, records: int, partitions: int, wide: int) -> None:
    if peer == "kafka":
        with before_kafka() as (bootstrap, address, console):
            asyncio.run(furnish(bootstrap, records, partitions, wide))
            open_overview(address)
            for line in measure(address, console, records):
                click.echo(line)
            click.echo(f"console, at most:                {megabytes(console, 'VmHWM'):5.1f} MB")
        return
    with tempfile.TemporaryDirectory(prefix="bench-console-") as folder, served(folder) as (bootstrap, address, broker):
        click.echo(f"broker, its console not opened:  {megabytes(broker, 'VmRSS'):5.1f} MB")
        asyncio.run(furnish(bootstrap, records, partitions, wide))
        open_overview(address)
        console = child_of(broker)
        for line in measure(address, console, records):
            click.echo(line)
        if _CHROMIUM is not None:
            for line in asyncio.run(strip_lines(bootstrap, address)):
                click.echo(line)
        click.echo(f"console, at most:                {megabytes(console, 'VmHWM'):5.1f} MB")


if __name__ == "__main__":
    main()
