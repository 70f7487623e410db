"""Queues on real Spark, with a real broker process: nothing is lost when workers die."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.client import Reject
from penstock.client.sync import Admin, Producer
from penstock.spark.worker import Record
from penstock.spark.workers import work
from tests.broker.process import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), penstock_acks_all_flush="false") as process:
        yield process


def put(broker: BrokerProcess, topic: str, count: int, partitions: int = 1) -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topic(topic, partitions)
    with Producer(bootstrap_servers=broker.address) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())


def handled(folder: Path) -> Counter[str]:
    """How often each record was handled to its end, as the handlers wrote it down."""
    return Counter(line for file in folder.iterdir() for line in file.read_text().split())


def writer(folder: Path) -> object:
    """A handler that writes down what it did, one file per process."""
    path = str(folder)

    def handler(record: Record) -> None:
        with open(f"{path}/{os.getpid()}", "a") as file:
            file.write(f"{(record.value or b'').decode()}\n")

    return handler


def test_many_workers_share_one_partition(spark: object, broker: BrokerProcess, tmp_path: Path) -> None:
    put(broker, "one", 300)
    seen = writer(tmp_path)

    def handler(record: Record) -> None:
        seen(record)  # type: ignore[operator]
        if record.value == b"7":
            raise Reject("seven")
        if record.value == b"9" and record.delivery_count == 1:
            raise RuntimeError("once more")

    summary = work(
        "one", "many", handler, 16, spark=spark, bootstrap_servers=broker.address, auto_offset_reset="earliest"
    )
    counters = summary.counters
    assert (counters.accepted, counters.released, counters.rejected, counters.redelivered) == (299, 1, 1, 1)
    assert summary.tasks == 2
    assert summary.lag_after == 0
    assert set(handled(tmp_path)) == {str(number) for number in range(300)}
    assert len(list(tmp_path.iterdir())) == 2  # both processes had their share


def test_a_worker_process_that_is_killed_loses_nothing(spark: object, broker: BrokerProcess, tmp_path: Path) -> None:
    put(broker, "killed", 400, partitions=2)
    done, marks = tmp_path / "done", tmp_path / "marks"
    done.mkdir()
    marks.mkdir()
    seen = writer(done)

    def handler(record: Record) -> None:
        if record.value == b"100":
            try:
                os.close(os.open(f"{marks}/dead", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os._exit(9)  # holding locks, in the middle of a record
        seen(record)  # type: ignore[operator]

    summary = work(
        "killed", "mortals", handler, 8, spark=spark, bootstrap_servers=broker.address, auto_offset_reset="earliest"
    )
    assert (marks / "dead").exists()
    assert set(handled(done)) == {str(number) for number in range(400)}
    assert summary.attempts > summary.tasks
    assert summary.lag_after == 0


def test_workers_go_on_until_they_are_stopped(spark: object, broker: BrokerProcess, tmp_path: Path) -> None:
    put(broker, "endless", 20)
    stop = threading.Event()

    def on_progress(counters: object) -> None:
        if counters.accepted >= 20:  # type: ignore[attr-defined]
            stop.set()

    summary = work(
        "endless",
        "tireless",
        writer(tmp_path),  # type: ignore[arg-type]
        4,
        spark=spark,
        bootstrap_servers=broker.address,
        auto_offset_reset="earliest",
        until_empty=False,
        stop=stop,
        on_progress=on_progress,
    )
    assert summary.counters.accepted == 20
    assert sum(handled(tmp_path).values()) == 20


def test_the_command_works_off_a_queue(
    spark: object, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(broker, "typed", 30)
    (tmp_path / "handlers_of_the_command.py").write_text(
        "from penstock.client import Reject\n"
        "def even(record):\n"
        "    if int(record.value) % 2:\n"
        "        raise Reject('odd')\n"
    )
    handler = f"{tmp_path}/handlers_of_the_command.py:even"
    arguments = ["work", "typed", "--group", "typists", "--handler", handler, "--from-beginning", "--json"]
    assert run([*arguments, "--bootstrap", broker.address]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["accepted"], output["rejected"], output["lag_after"]) == (15, 15, 0)
