"""`penstock top` shows what a broker does."""

from __future__ import annotations

import json
import threading

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.cli import top
from penstock.cli.failures import Failure
from penstock.cli.main import run
from penstock.cli.monitoring import Reading
from penstock.cli.top import duration, size
from penstock.testing import Broker
from tests.cli.test_cleaner import free_port


def test_it_shows_rates_requests_and_the_group_that_is_behind(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}) as broker:
        broker.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        for _ in range(7):
            producer.produce("orders", b"x" * 100)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "slow"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
        done = threading.Event()

        def keep_producing() -> None:
            while not done.wait(0.02):
                producer.produce("orders", b"x" * 100)
                producer.flush(30)

        writer = threading.Thread(target=keep_producing)
        writer.start()
        try:
            arguments = ["top", "--once", "--interval", "0.5", "--bootstrap", broker.bootstrap_servers]
            assert run([*arguments, "--json"]) == 0
            view = json.loads(capsys.readouterr().out)
            assert run(arguments) == 0
            text = capsys.readouterr().out
        finally:
            done.set()
            writer.join()
            consumer.close()
    rates = {each["topic"]: each for each in view["topics"]}
    assert rates["orders"]["records_in_per_second"] > 0
    assert rates["orders"]["bytes_in_per_second"] > 100 * rates["orders"]["records_in_per_second"]
    requests = {each["request"]: each for each in view["requests"]}
    assert requests["Produce"]["per_second"] > 0
    assert requests["Produce"]["p99_ms"] > 0
    assert requests["Produce"]["handling_ms"] is not None
    (behind,) = view["groups"]
    assert (behind["group"], behind["topic"]) == ("slow", "orders")
    assert behind["lag"] >= 5
    assert "records/s in" in text
    assert "slow" in text


def test_it_waits_for_a_broker_that_is_restarted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Reading | Failure | KeyboardInterrupt] = [
        Reading({"here": {}}, {}),
        Failure("here does not answer (refused); is it the broker's penstock.metrics.listen?\n  and more"),
        Reading({"here": {}}, {}),
        KeyboardInterrupt(),
    ]

    def next_answer(addresses: object) -> Reading:
        answer = answers.pop(0)
        if isinstance(answer, Reading):
            return answer
        raise answer

    monkeypatch.setattr(top, "read_all", next_answer)
    run(["top", "--interval", "0.1", "--json", "--monitoring", "here"])
    assert not answers
    out, err = capsys.readouterr()
    assert [json.loads(line)["brokers"] for line in out.splitlines()] == [1]
    assert "here does not answer (refused); is it the broker's penstock.metrics.listen?" in err
    assert "and more" not in err


def test_a_broker_that_shows_nothing_is_told_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        assert run(["top", "--once", "--bootstrap", broker.bootstrap_servers]) == 1
    assert "penstock.metrics.listen" in capsys.readouterr().err


def test_sizes_and_durations_are_for_people() -> None:
    sizes = [size(count) for count in (0, 1023, 1536, 5 << 20, 3 << 30)]
    assert sizes == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
    durations = [duration(seconds) for seconds in (None, 1.25, 600, 86_400, 864_000)]
    assert durations == ["-", "1.2 s", "10 min", "24 h", "10 d"]
