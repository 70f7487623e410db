"""`penstock share advise` says how many workers a queue needs."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from penstock.cli.main import run
from penstock.cli.share_advice import explain
from penstock.client import Producer, ShareConsumer
from penstock.client.admin import Admin, ResourceType
from penstock.client.queue_advice import Advice
from penstock.testing import Broker
from tests.cli.test_cleaner import free_port

ADVICE = Advice(
    group="resize",
    topics=["images"],
    workers=10,
    lag=4_500,
    oldest_seconds=180,
    arrivals_per_second=40,
    done_per_second=25,
    handling_seconds=0.4,
    workers_to_keep_up=20,
    workers_to_catch_up=28,
    catch_up_seconds=300,
)


def test_advice_is_explained_in_lines() -> None:
    assert explain(ADVICE) == [
        "Queue 'resize' (images): 40.0 records/s arrive, 25.0/s are done, 4,500 wait, the oldest for 3 min.",
        "A worker has a record for 400 ms; there are 10 now.",
        "  To keep up:                        20 workers",
        "  To catch up within 5 min:          28 workers",
    ]
    quiet = replace(ADVICE, workers=1, handling_seconds=2.0, workers_to_keep_up=1, workers_to_catch_up=1)
    assert explain(quiet)[1:] == [
        "A worker has a record for 2.0 s; there is 1 now.",
        "  To keep up:                        1 worker",
    ]


def test_who_knows_how_long_a_record_takes_is_asked_where_nobody_took_one() -> None:
    idle = replace(ADVICE, handling_seconds=None, workers_to_keep_up=None, workers_to_catch_up=None)
    assert "--handling-time" in explain(idle)[-1]


async def _work(servers: str, ready: threading.Event, done: threading.Event) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.alter_configs(ResourceType.GROUP, "resize", {"share.auto.offset.reset": "earliest"})
    stop = asyncio.Event()

    async def handle(record: object) -> None:
        ready.set()
        await asyncio.sleep(0.02)

    async def feed(producer: Producer) -> None:
        while not done.is_set():
            await producer.send_and_wait("images", b"x")
            await asyncio.sleep(0.01)
        stop.set()

    async with (
        Producer(bootstrap_servers=servers) as producer,
        ShareConsumer(bootstrap_servers=servers, group_id="resize") as worker,
    ):
        worker.subscribe("images")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed(producer))
            await worker.run(handle, stop=stop)


def test_a_real_queue_is_advised_on(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}) as broker:
        broker.create_topic("images", 1)
        ready, done = threading.Event(), threading.Event()
        working = threading.Thread(target=lambda: asyncio.run(_work(broker.bootstrap_servers, ready, done)))
        working.start()
        try:
            assert ready.wait(60)
            arguments = ["share", "advise", "resize", "--seconds", "1", "--bootstrap", broker.bootstrap_servers]
            assert run([*arguments, "--json"]) == 0
        finally:
            done.set()
            working.join(60)
        advice = json.loads(capsys.readouterr().out)
        assert advice["workers"] == 1
        assert advice["topics"] == ["images"]
        assert advice["arrivals_per_second"] > 0
        assert advice["handling_seconds"] > 0
        assert advice["workers_to_keep_up"] >= 1
        assert run([*arguments[:2], "nobody", *arguments[3:]]) == 1
