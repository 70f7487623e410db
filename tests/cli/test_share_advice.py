"""`penstock share advise` says how many workers a queue needs."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from penstock.cli.failures import Failure
from penstock.cli.main import run
from penstock.cli.scrapes import Samples, parse
from penstock.cli.share_advice import advise, explain
from penstock.client import Producer, ShareConsumer
from penstock.client.admin import Admin, ResourceType
from penstock.testing import Broker
from tests.cli.test_cleaner import free_port


def scrape(arrived: int, delivered: int, lag: int, held: int, age: float = 0) -> Samples:
    return parse(
        f'kafka_server_brokertopicmetrics_messagesin_total{{topic="images"}} {arrived}\n'
        f'kafka_server_brokertopicmetrics_messagesin_total{{topic="others"}} {arrived * 7}\n'
        f'penstock_share_deliveries_total{{group="resize",topic="images"}} {delivered}\n'
        f'penstock_share_deliveries_total{{group="others",topic="images"}} {delivered * 7}\n'
        f'penstock_share_group_lag_records_sum{{group="resize",topic="images"}} {lag}\n'
        f'penstock_share_group_held_records{{group="resize",topic="images"}} {held}\n'
        f'penstock_share_group_lag_age_seconds{{group="resize",topic="images"}} {age}\n'
    )


BEHIND = [(0.0, scrape(1_000, 500, 4_350, 10)), (10.0, scrape(1_400, 750, 4_500, 10, 180))]


def test_the_time_that_a_worker_has_a_record_follows_from_how_many_are_held() -> None:
    advice = advise(BEHIND, "resize", 10)
    assert advice.arrivals_per_second == 40
    assert advice.done_per_second == 25
    assert advice.handling_seconds == 0.4
    assert advice.workers_to_keep_up == 20  # 40/s of 0.4 s are 16 busy workers, busy for 80 % of the time
    assert advice.workers_to_catch_up == 28  # and 15/s more work off 4,500 in five minutes
    assert explain(advice) == [
        "Queue 'resize' (images): 40.0 records/s arrive, 25.0/s are done, 4,500 wait, the oldest for 3 min.",
        "A worker has a record for 400 ms; there are 10 now.",
        "  To keep up:                        20 workers",
        "  To catch up within 5 min:          28 workers",
    ]


def test_who_knows_the_time_better_says_so() -> None:
    advice = advise(BEHIND, "resize", 10, handling_seconds=0.1, concurrency=2, catch_up_seconds=30)
    assert (advice.workers_to_keep_up, advice.workers_to_catch_up) == (3, 12)


def test_a_queue_that_nobody_works_on_cannot_tell_how_long_a_record_takes() -> None:
    idle = [(0.0, scrape(0, 0, 5, 0)), (10.0, scrape(0, 0, 5, 0))]
    advice = advise(idle, "resize", 0)
    assert advice.workers_to_keep_up is None
    assert "--handling-time" in explain(advice)[-1]


def test_a_quiet_queue_needs_one_worker() -> None:
    quiet = [(0.0, scrape(0, 0, 0, 0)), (10.0, scrape(0, 0, 0, 0))]
    lines = explain(advise(quiet, "resize", 1, handling_seconds=2.0))
    assert lines[1].startswith("A worker has a record for 2.0 s")
    assert lines[2:] == ["  To keep up:                        1 worker"]


def test_a_queue_that_the_broker_does_not_show_is_named() -> None:
    with pytest.raises(Failure, match="no queue of a share group 'nobody'"):
        advise(BEHIND, "nobody", 0)


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
