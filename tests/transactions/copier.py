"""Copies a topic into another, each batch in one transaction with the offsets that it read. Made to be killed.

python -m tests.transactions.copier BOOTSTRAP GROUP INSTANCE INPUT OUTPUT SEED
"""

from __future__ import annotations

import random
import sys

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT_S = 30


def client_configs(bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        # When all brokers are away librdkafka 2.16 starts from the bootstrap servers again, but keeps asking the old,
        # ended connection for the group coordinator: a transaction with offsets then never ends.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }


def main() -> None:
    bootstrap, group, number, source, target, seed, way = sys.argv[1:]
    chance = random.Random(seed)
    common = client_configs(bootstrap)
    consumer = Consumer(
        {
            **common,
            "group.id": group,
            # A program that was killed takes its place in the group again at once.
            "group.instance.id": f"copier-{number}",
            "session.timeout.ms": 6000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({**common, "transactional.id": f"{group}-{number}", "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    if way == "subscribe":
        consumer.subscribe([source])
    else:
        # After init_transactions, so that no open transaction of a predecessor holds back the offsets.
        consumer.assign(committed(consumer, [TopicPartition(source, int(number))]))
    while True:
        messages = [message for message in consumer.consume(chance.randint(1, 20), 0.5) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition() or 0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
        )
        if chance.random() < 0.2:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
            go_back(consumer)
        else:
            producer.commit_transaction(WAIT_S)


def go_back(consumer: Consumer) -> None:
    """Read again what the aborted transaction would have committed."""
    for position in committed(consumer, consumer.assignment()):
        consumer.seek(position)


def committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    return [
        TopicPartition(position.topic, position.partition, max(position.offset, 0))
        for position in consumer.committed(partitions, WAIT_S)
    ]


if __name__ == "__main__":
    main()
