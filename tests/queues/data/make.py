"""Makes the files beside it: `__share_group_state` of a real Apache Kafka, with windows in many states. Needs java.

    python -m tests.queues.data.make

A fresh Kafka is started and two share groups work through a topic of two partitions: records are accepted, released,
rejected and left alone, some of them several times, so that both snapshots and updates are written. What Kafka's share
coordinator says about every window (ReadShareGroupState) is kept as `expected.json`; then Kafka is killed and the
segments are copied.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.share.share_client import Wire, set_group_configs, topic_id

HERE = Path(__file__).parent
TOPIC, PARTITIONS, GROUPS = "jobs", 2, ("workers", "auditors")
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}


def main() -> None:
    with KafkaPeer(SETTINGS, jvm_options=SMALL_JVM_OPTIONS) as kafka:
        with Wire(SimpleNamespace(port=kafka.port)) as wire:  # type: ignore[arg-type]
            fill(kafka.bootstrap, wire)
            for turn, group in enumerate(GROUPS):
                work(kafka.bootstrap, group, turn)
            topic = topic_id(wire, TOPIC)
            expected = {group: [read(wire, group, topic, index) for index in range(PARTITIONS)] for group in GROUPS}
        keep, kafka._owns_folder = kafka._owns_folder, False
        kafka.stop(kill=True)
        kafka._owns_folder = keep
        copy(kafka.data)
        kafka.stop()
    (HERE / "expected.json").write_text(json.dumps({"topic_id": topic.hex(), "groups": expected}, indent=1) + "\n")


def fill(bootstrap: str, wire: Wire) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result()
    for group in GROUPS:
        set_group_configs(wire, group, share_auto_offset_reset="earliest")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 7})
    for number in range(120):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    producer.flush()


def work(bootstrap: str, group: str, turn: int) -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
        }
    )
    consumer.subscribe([TOPIC])
    answers = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT]
    polls = 0
    while polls < 9:
        messages = [message for message in consumer.poll(1.0) if message.error() is None]
        if messages:
            polls += 1
        for message in messages:
            consumer.acknowledge(message, answers[((message.offset() or 0) + turn + polls) % len(answers)])
        if messages:
            consumer.commit_sync()
    consumer.close()


def read(wire: Wire, group: str, topic: bytes, index: int) -> dict[str, object]:
    request = m.ReadShareGroupStateRequest
    partition = request.PartitionData(partition=index, leader_epoch=-1)
    body = request(group_id=group, topics=[request.ReadStateData(topic_id=topic, partitions=[partition])])
    response = wire.ask(ApiKey.READ_SHARE_GROUP_STATE, 0, body, m.ReadShareGroupStateResponse)
    result = response.results[0].partitions[0]
    assert result.error_code == 0, result.error_message
    return {
        "partition": index,
        "state_epoch": result.state_epoch,
        "start_offset": result.start_offset,
        "batches": [[b.first_offset, b.last_offset, b.delivery_state, b.delivery_count] for b in result.state_batches],
    }


def copy(data: Path) -> None:
    for folder in sorted(data.glob("__share_group_state-*")):
        used = [path for path in folder.iterdir() if path.suffix == ".log" and path.stat().st_size]
        if used:
            target = HERE / "kafka-4.3.1" / folder.name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for path in used:
                shutil.copy(path, target)


if __name__ == "__main__":
    main()
