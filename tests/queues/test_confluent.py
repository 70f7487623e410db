"""confluent-kafka's ShareConsumer (librdkafka) as the user meets it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from penstock.testing import Broker
from tests.broker.share.share_client import Wire, set_group_configs

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as it:
        yield it


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic for the test, and a group of the same name that reads it from the beginning."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:80]
    broker.create_topic(name)
    with Wire(broker) as wire:
        set_group_configs(wire, name, share_auto_offset_reset="earliest")
    return name


def produce(broker: Broker, topic: str, number: int, **configs: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **configs})
    for i in range(number):
        producer.produce(topic, b"%d" % i)
    assert producer.flush(PATIENCE_SECONDS) == 0


def consumer(broker: Broker, topic: str, mode: str = "explicit", **configs: Any) -> ShareConsumer:
    made = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "share.acknowledgement.mode": mode,
            "log_level": 3,
            **configs,
        }
    )
    made.subscribe([topic])
    return made


def poll(worker: ShareConsumer, number: int) -> list[Message]:
    """Polls until that many records have come."""
    got: list[Message] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(got) < number:
        assert time.monotonic() < deadline, f"{len(got)} of {number} records came"
        for message in worker.poll(0.5):
            assert message.error() is None, message.error()
            got.append(message)
    return got


def test_implicit_acknowledgement_takes_every_record_once(broker: Broker, topic: str) -> None:
    produce(broker, topic, 1_000, **{"batch.num.messages": 70})
    worker = consumer(broker, topic, "implicit", **{"max.poll.records": 50})
    got = [int(message.value() or b"") for message in poll(worker, 1_000)]
    assert got == list(range(1_000))
    worker.close()


def test_a_poll_gets_no_more_than_max_poll_records(broker: Broker, topic: str) -> None:
    produce(broker, topic, 100)
    worker = consumer(broker, topic, "explicit", **{"max.poll.records": 7})
    polled: list[list[Message]] = []
    while len(polled) < 5:
        messages = list(worker.poll(1.0))
        for message in messages:
            worker.acknowledge(message)
        if messages:
            polled.append(messages)
    assert [len(messages) for messages in polled] == [7] * 5
    worker.close()


def test_released_records_come_back_and_rejected_ones_do_not(broker: Broker, topic: str) -> None:
    produce(broker, topic, 3)
    worker = consumer(broker, topic)
    accepted, released, rejected = sorted(poll(worker, 3), key=lambda message: message.offset() or 0)
    worker.acknowledge(accepted, AcknowledgeType.ACCEPT)
    worker.acknowledge(released, AcknowledgeType.RELEASE)
    worker.acknowledge(rejected, AcknowledgeType.REJECT)
    assert list(worker.commit_sync(PATIENCE_SECONDS).values()) == [None]
    (again,) = poll(worker, 1)
    assert (again.offset(), again.delivery_count()) == (1, 2)
    worker.acknowledge(again)
    worker.commit_sync(PATIENCE_SECONDS)
    assert [message for _ in range(3) for message in worker.poll(0.2)] == []
    worker.close()


def test_a_consumer_that_closes_gives_its_records_to_others(broker: Broker, topic: str) -> None:
    produce(broker, topic, 5)
    first = consumer(broker, topic)
    assert len(poll(first, 5)) == 5
    second = consumer(broker, topic)
    first.close()
    assert {message.delivery_count() for message in poll(second, 5)} == {2}
    second.close()


def test_many_consumers_share_one_large_batch(broker: Broker, topic: str) -> None:
    """One producer batch of 2,000 records, eight consumers: in Apache Kafka one of them would get everything."""
    worked: Counter[int] = Counter()
    seen: Counter[int] = Counter()
    guard = threading.Lock()
    done = threading.Event()
    everybody_waits = threading.Barrier(9, timeout=PATIENCE_SECONDS)

    def work(number: int) -> None:
        worker = consumer(broker, topic, "explicit", **{"max.poll.records": 10})
        for _ in range(3):
            assert not list(worker.poll(0.3))
        everybody_waits.wait()
        while not done.is_set():
            for message in worker.poll(0.2):
                worker.acknowledge(message)
                time.sleep(0.001)
                with guard:
                    worked[number] += 1
                    seen[message.offset() or 0] += 1
                    if len(seen) == 2_000:
                        done.set()
        worker.close()

    crew = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in crew:
        thread.start()
    everybody_waits.wait()
    produce(broker, topic, 2_000, **{"batch.num.messages": 10_000, "linger.ms": 500})
    assert done.wait(PATIENCE_SECONDS)
    for thread in crew:
        thread.join(PATIENCE_SECONDS)
    assert set(seen.values()) == {1}, "nothing came twice"
    assert len(worked) == 8
    assert min(worked.values()) > 60, worked


def test_a_new_group_gets_its_first_record_at_once(broker: Broker, topic: str) -> None:
    """Apache Kafka assigns partitions with the second heartbeat, five seconds after the first."""
    produce(broker, topic, 1)
    worker = consumer(broker, topic)
    polls = 0
    while not (messages := list(worker.poll(1.0))):
        polls += 1
        assert polls < 4
    worker.acknowledge(messages[0])
    worker.close()
