"""`penstock cleaner` against a broker whose cleaner works."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from penstock.cli.main import run
from penstock.testing import Broker


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    configs = {"penstock.metrics.listen": f"127.0.0.1:{free_port()}", "log.cleaner.backoff.ms": "100"}
    with Broker(configs) as it:
        it.create_topic("latest", cleanup_policy="compact", internal_segment_bytes=4096, min_cleanable_dirty_ratio=0.01)
        producer = Producer({"bootstrap.servers": it.bootstrap_servers, "batch.num.messages": 10})
        for i in range(500):
            producer.produce("latest", b"%0100d" % i, key=b"%d" % (i % 3))
            if i % 10 == 9:
                assert producer.flush(10) == 0
        yield it


def cleaner(broker: Broker, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["cleaner", *arguments, "--bootstrap", broker.bootstrap_servers])
    out, err = capsys.readouterr()
    return status, out, err


def test_it_says_when_the_cleaner_last_worked_and_how_dirty_each_log_is(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status, out, err = cleaner(broker, capsys, "--json")
        assert status == 0, err
        view = json.loads(out)
        if view["rounds"]:
            break
        time.sleep(0.1)
    (log,) = view["logs"]
    assert (log["topic"], log["partition"]) == ("latest", 0)
    assert log["lastSuccessMs"] is not None
    assert view["bytesWritten"] < view["bytesRead"]

    _, out, _ = cleaner(broker, capsys)
    assert "last success" in out
    assert "never" not in out.splitlines()[0]
    assert out.splitlines()[1].split()[:3] == ["TOPIC", "PARTITION", "DIRTY-BYTES"]


def test_logs_that_have_nothing_to_clean_are_counted_and_listed_on_demand(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("quiet", 3, cleanup_policy="compact")
    _, out, err = cleaner(broker, capsys)
    assert "quiet" not in out, err
    assert out.splitlines()[-1] == "3 more compacted logs have nothing to clean; --all lists them."
    _, out, _ = cleaner(broker, capsys, "--all")
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("quiet")] == [
        ["quiet", "0"],
        ["quiet", "1"],
        ["quiet", "2"],
    ]
    _, out, _ = cleaner(broker, capsys, "--json")
    assert [log["topic"] for log in json.loads(out)["logs"]].count("quiet") == 3


def test_a_broker_that_shows_nothing_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as silent:
        status, _, err = cleaner(silent, capsys)
    assert status == 1
    assert "penstock serve -c penstock.metrics.listen=" in err
