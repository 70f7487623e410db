"""A broker under `python -O`, which leaves out every assert."""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.records.builder import build_batch
from tests.broker.process import WAIT_SECONDS, BrokerProcess
from tests.broker.raw import create_topic, produce_error


class OptimizedBroker(BrokerProcess):
    def command(self) -> list[str]:
        return [sys.executable, "-O", *super().command()]


def consumer(address: str) -> Consumer:
    return Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})


def test_records_and_committed_offsets_are_found_after_a_restart(tmp_path: Path) -> None:
    with OptimizedBroker(tmp_path) as broker:
        create_topic(broker.port, "t")
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        for value in (b"a", b"b", b"c"):
            producer.produce("t", value)
        assert producer.flush(WAIT_SECONDS) == 0
        first = consumer(broker.address)
        first.commit(offsets=[TopicPartition("t", 0, 2)], asynchronous=False)
        first.close()
        assert broker.stop() == 0

        broker.start()
        second = consumer(broker.address)
        [committed] = second.committed([TopicPartition("t", 0)], WAIT_SECONDS)
        assert committed.offset == 2
        second.assign([committed])
        message = second.poll(WAIT_SECONDS)
        assert message is not None
        assert message.value() == b"c"
        second.close()


def test_a_transaction_that_was_open_at_the_stop_ends_after_the_restart(tmp_path: Path) -> None:
    """Nobody asks for the transaction coordinator after the restart: it is loaded because it has something to end."""
    with OptimizedBroker(tmp_path) as broker:
        create_topic(broker.port, "t")
        transactional = {"transactional.id": "x", "transaction.timeout.ms": 1000}
        producer = Producer({"bootstrap.servers": broker.address, **transactional})
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
        producer.produce("t", b"never committed")
        producer.flush(WAIT_SECONDS)
        broker.kill()
        del producer

        broker.start()
        reader = consumer(broker.address)
        reader.assign([TopicPartition("t", 0, 0)])
        assert produce_error(broker.port, "t", build_batch([(0, None, b"after it", [])])) == 0
        message = reader.poll(WAIT_SECONDS)
        assert message is not None, "the transaction is still open"
        assert message.value() == b"after it"
        reader.close()
