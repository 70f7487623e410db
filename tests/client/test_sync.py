"""The blocking front end: the same scenarios, without asyncio."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client import AcknowledgeType, Reject, ResourceType, TopicPartition
from penstock.client.errors import BrokerUnreachable, UsageError
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.wire.errors import KafkaError


@pytest.fixture
def names(bootstrap: str, fresh: Callable[[str], str]) -> tuple[str, str]:
    """A topic and a group."""
    topic = fresh("sync")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, 1)
    return topic, fresh("group")


def test_records_go_in_and_come_out(bootstrap: str, names: tuple[str, str]) -> None:
    topic, group = names
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % number, key=b"k") for number in range(100)]
        assert [delivery.result(20).offset for delivery in deliveries] == list(range(100))
        assert deliveries[0].done()
        assert producer.send_and_wait(topic, "text").offset == 100
        assert producer.send_batch(topic, [b"x"] * 10, partition=0)[-1].result(20).offset == 110
        assert producer.partitions_for(topic) == [0]
    with Consumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        seen = []
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 111:
                break
        consumer.commit()
        tp = TopicPartition(topic, 0)
        assert consumer.position(tp) == 111
        committed = consumer.committed([tp])[tp]
        assert committed is not None
        assert committed.offset == 111
        assert consumer.poll(50) == []
    assert seen[:2] == [b"0", b"1"]


def test_many_records_are_handed_over_in_order(bootstrap: str, names: tuple[str, str]) -> None:
    topic, _ = names
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(25_000):
            producer.send(topic, b"%d" % number)
        producer.flush()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=5000) as consumer:
        consumer.assign([(topic, 0)])
        seen: list[bytes | None] = []
        while len(seen) < 25_000:
            seen += [record.value for record in consumer.poll(5000)]
    assert seen == [b"%d" % number for number in range(25_000)]


def test_threads_share_a_producer_and_each_record_goes_out_once(bootstrap: str, names: tuple[str, str]) -> None:
    topic, _ = names
    threads, each = 8, 300
    with Producer(bootstrap_servers=bootstrap) as producer, ThreadPoolExecutor(threads) as pool:

        def send(number: int) -> list[int]:
            values = [b"%d" % (number * each + at) for at in range(each)]
            return [producer.send(topic, value).result(20).offset for value in values]

        places = [place for found in pool.map(send, range(threads)) for place in found]
    assert sorted(places) == [*range(threads * each)]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=5000) as consumer:
        consumer.assign([(topic, 0)])
        seen: list[int] = []
        while len(seen) < threads * each:
            seen += [int(record.value or b"") for record in consumer.poll(5000)]
    assert sorted(seen) == [*range(threads * each)]


def test_who_stops_waiting_does_not_stop_the_hand_over(bootstrap: str, names: tuple[str, str]) -> None:
    topic, _ = names
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(5000)]
        with pytest.raises(TimeoutError):
            deliveries[-1].result(0)
        assert [delivery.result(20).offset for delivery in deliveries] == [*range(5000)]


def test_a_transaction_is_a_with_block(bootstrap: str, names: tuple[str, str]) -> None:
    topic, group = names
    with Producer(bootstrap_servers=bootstrap, transactional_id=group) as producer:
        with producer.transaction():
            producer.send(topic, b"kept")
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
            producer.send(topic, b"dropped")
            raise ZeroDivisionError
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.poll(5000)] == [b"kept"]


def test_a_worker_handles_records_in_threads(bootstrap: str, names: tuple[str, str]) -> None:
    topic, group = names
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, {"share.auto.offset.reset": "earliest"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group, share_acknowledgement_mode="explicit") as worker:
        worker.subscribe([topic])
        taken: list[int] = []
        while len(taken) < 10:
            for record in worker.poll(2000):
                taken.append(record.offset)
                with worker.hold(record):
                    pass
                worker.acknowledge(record, AcknowledgeType.ACCEPT)
        assert worker.commit() == {TopicPartition(topic, 0): None}
    assert sorted(taken) == list(range(10))
    assert issubclass(Reject, Exception)


def test_errors_are_those_of_the_asyncio_client(bootstrap: str, names: tuple[str, str]) -> None:
    topic, _ = names
    with pytest.raises(BrokerUnreachable), Producer(bootstrap_servers="127.0.0.1:1"):
        pass
    with pytest.raises(UsageError, match="did you mean"):
        Producer({"linger.mss": 1})
    with Producer(bootstrap_servers=bootstrap) as producer:
        delivery = producer.send(topic, b"v", partition=9)
        with pytest.raises(KafkaError, match="partitions 0 to 0"):
            delivery.result(20)
