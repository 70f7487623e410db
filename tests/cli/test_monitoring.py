"""Commands that watch brokers watch all of them, here two over one data folder."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.peers import free_ports
from penstock.cli.main import run
from penstock.client.sync import Admin, Producer, ShareConsumer
from penstock.client.types import TopicPartition
from tests.broker.process import BrokerProcess, free_port

GROUP = "workers"


class Pair:
    """Two brokers with a topic that each leads one half of, which somebody writes to and a queue has records of."""

    def __init__(self, bootstrap: str, monitoring: int) -> None:
        self.bootstrap = bootstrap
        self.monitoring = monitoring


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    port = free_ports(2)
    configs: dict[str, Any] = {
        "penstock_metrics_listen": f"127.0.0.1:{port}",
        "group_share_min_heartbeat_interval_ms": 100,
    }
    folder: Path = tmp_path_factory.mktemp("pair")
    with BrokerProcess(folder, brokers=2, **configs) as process:
        settings: dict[str, Any] = {"bootstrap_servers": process.address}
        with Admin(**settings) as admin:
            admin.create_topic("jobs", 2)
            leaders = {each.leader for each in admin.describe_topic("jobs").partitions.values()}
            assert len(leaders) == 2
            admin.alter_share_group_offsets(GROUP, {TopicPartition("jobs", at): 0 for at in (0, 1)})
        with Producer(**settings) as producer, ShareConsumer(**settings, group_id=GROUP) as worker:
            for partition in (0, 1):
                producer.send_and_wait("jobs", b"work", partition=partition)
            worker.subscribe("jobs")
            held: set[int] = set()
            while len(held) < 2:
                held |= {record.partition for record in worker.poll(timeout_ms=30_000)}
            done = threading.Event()
            writer = threading.Thread(target=_keep_writing, args=(producer, done))
            writer.start()
            try:
                yield Pair(process.address, port)
            finally:
                done.set()
                writer.join(30)


def _keep_writing(producer: Producer, done: threading.Event) -> None:
    while not done.wait(0.02):
        for partition in (0, 1):
            producer.send_and_wait("jobs", b"work", partition=partition)


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def _records_per_second(view: dict[str, object]) -> float:
    topics = view["topics"]
    assert isinstance(topics, list)
    return float(sum(each["records_in_per_second"] for each in topics if each["topic"] == "jobs"))


def test_top_shows_what_all_brokers_do(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["top", "--once", "--interval", "1", "--bootstrap", pair.bootstrap]
    view = _json(capsys, *arguments)
    assert (view["brokers"], view["silent"]) == (2, {})
    for port in (pair.monitoring, pair.monitoring + 1):
        alone = _json(capsys, *arguments, "--monitoring", f"127.0.0.1:{port}")
        assert alone["brokers"] == 1
        assert _records_per_second(alone) > 0  # both have a part of what the first view showed
    assert run(arguments) == 0
    assert "on 2 brokers" in capsys.readouterr().out


def test_a_broker_that_does_not_answer_is_named_and_left_out(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    silent = f"127.0.0.1:{free_port()}"
    arguments = ["top", "--once", "--interval", "0.2", "--monitoring", f"127.0.0.1:{pair.monitoring}"]
    arguments += ["--monitoring", silent, "--bootstrap", pair.bootstrap]
    view = _json(capsys, *arguments)
    assert view["brokers"] == 1
    assert list(view["silent"]) == [silent]  # type: ignore[call-overload]
    assert run(arguments) == 0
    assert f"{silent} does not answer" in capsys.readouterr().err


def test_a_queue_is_advised_on_whichever_broker_coordinates_it(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["share", "advise", GROUP, "--seconds", "1", "--bootstrap", pair.bootstrap]
    deadline = time.monotonic() + 60
    while run([*arguments, "--json"]) != 0:  # until the broker has counted what the queue holds for the first time
        assert time.monotonic() < deadline
    capsys.readouterr()
    advice = _json(capsys, *arguments)
    assert advice["topics"] == ["jobs"]
    assert advice["workers"] == 1


def test_the_windows_of_a_queue_are_drawn_from_all_brokers(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["share", "inspect", GROUP, "--bootstrap", pair.bootstrap, "--json"]) == 0
    windows = json.loads(capsys.readouterr().out)
    assert sorted(window["partition"] for window in windows) == [0, 1]
