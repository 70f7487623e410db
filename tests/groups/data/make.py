"""Makes the files beside it: `__consumer_offsets` of a real Apache Kafka, with groups of every kind. Needs java.

    python -m tests.groups.data.make

A fresh Kafka is started. Classic, consumer and share groups join, move partitions, commit, leave; offsets are committed
with and without a group, in transactions that end and one that does not; groups and offsets are deleted. What Kafka
says of all of it is kept as `expected.json`; then Kafka is killed and the segments are copied.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.share.share_client import Wire, topic_id

HERE = Path(__file__).parent
TOPICS = {"orders": 4, "mails": 2}
SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}


def main() -> None:
    with KafkaPeer(SETTINGS, jvm_options=SMALL_JVM_OPTIONS) as kafka:
        with Wire(SimpleNamespace(port=kafka.port)) as wire:  # type: ignore[arg-type]
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
            for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
                future.result()
            members = start_groups(kafka.bootstrap)
            commit_without_group(kafka.bootstrap, admin)
            transactions = commit_in_transactions(kafka.bootstrap)
            expected = words_of_kafka(wire)
        keep, kafka._owns_folder = kafka._owns_folder, False
        kafka.stop(kill=True)
        kafka._owns_folder = keep
        copy(kafka.data)
        kafka.stop()
    del members, transactions
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def start_groups(bootstrap: str) -> list[object]:
    """Members that live until Kafka dies."""

    def member(group: str, topics: list[str], **configs: object) -> Consumer:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, **{name.replace("_", "."): value for name, value in configs.items()}})
        consumer.subscribe(topics)
        return consumer

    classic = [member("classic", ["orders"], client_id=f"c{i}", session_timeout_ms=60_000) for i in range(2)]
    static = [member("static", ["orders", "mails"], group_instance_id="i1", session_timeout_ms=60_000)]
    modern = [member("modern", ["orders"], client_id=f"m{i}", group_protocol="consumer") for i in range(2)]
    pattern = [member("pattern", ["^(orders|mails)$"], group_protocol="consumer", group_instance_id="p1")]
    left = member("left", ["orders"], group_protocol="consumer")
    everybody = [*classic, *static, *modern, *pattern, left]
    share = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "shared", "client.id": "s0"})
    share.subscribe(["orders"])

    def settled() -> bool:
        for consumer in everybody:
            consumer.poll(0.1)
        share.poll(0.1)
        return all(consumer.assignment() for consumer in everybody)

    wait_until(settled)
    classic[0].commit(offsets=[TopicPartition("orders", p.partition, 7, "a note") for p in classic[0].assignment()])
    modern[0].commit(offsets=[TopicPartition("orders", p.partition, 9) for p in modern[0].assignment()])
    left.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    left.close()
    everybody.remove(left)
    for _ in range(100):  # let share group and rebalances come to rest
        settled()
    return [*everybody, share]


def commit_without_group(bootstrap: str, admin: AdminClient) -> None:
    for group, offset in (("simple", 1), ("simple", 2), ("deleted", 5)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        wanted = [TopicPartition("orders", 0, offset), TopicPartition("mails", 1, offset)]
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()
    admin.delete_consumer_groups(["deleted"])["deleted"].result()


def commit_in_transactions(bootstrap: str) -> list[Producer]:
    """One transaction commits, one aborts, one is still open when Kafka dies."""
    kept = []
    for name, end in (("commits", "commit"), ("aborts", "abort"), ("hangs", None)):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions()
        producer.begin_transaction()
        metadata = Consumer({"bootstrap.servers": bootstrap, "group.id": "txn"}).consumer_group_metadata()
        partition = {"commits": 0, "aborts": 1, "hangs": 2}[name]
        producer.send_offsets_to_transaction([TopicPartition("orders", partition, 11)], metadata)
        if end == "commit":
            producer.commit_transaction()
        elif end == "abort":
            producer.abort_transaction()
        kept.append(producer)
    return kept


def words_of_kafka(wire: Wire) -> dict[str, object]:
    listed = wire.ask(ApiKey.LIST_GROUPS, 5, m.ListGroupsRequest(), m.ListGroupsResponse)
    groups = {group.group_id: [group.group_type, group.protocol_type, group.group_state] for group in listed.groups}
    names = {kind: [g for g, (k, _, _) in groups.items() if k == kind] for kind in ("classic", "consumer", "share")}
    classic = wire.ask(
        ApiKey.DESCRIBE_GROUPS, 6, m.DescribeGroupsRequest(groups=names["classic"]), m.DescribeGroupsResponse
    )
    consumer = wire.ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        m.ConsumerGroupDescribeRequest(group_ids=names["consumer"]),
        m.ConsumerGroupDescribeResponse,
    )
    share = wire.ask(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        m.ShareGroupDescribeRequest(group_ids=names["share"]),
        m.ShareGroupDescribeResponse,
    )
    request = m.OffsetFetchRequest
    fetched = wire.ask(
        ApiKey.OFFSET_FETCH,
        9,
        request(groups=[request.OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]),
        m.OffsetFetchResponse,
    )
    unstable = wire.ask(
        ApiKey.OFFSET_FETCH,
        9,
        request(groups=[request.OffsetFetchRequestGroup(group_id="txn", topics=[_asked()])], require_stable=True),
        m.OffsetFetchResponse,
    )
    return {
        "topics": {name: [topic_id(wire, name).hex(), count] for name, count in TOPICS.items()},
        "groups": groups,
        "classic": [plain(group) for group in classic.groups],
        "consumer": [plain(group) for group in consumer.groups],
        "share": [plain(group) for group in share.groups],
        "offsets": {
            group.group_id: sorted(
                [t.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata]
                for t in group.topics
                for p in t.partitions
            )
            for group in fetched.groups
        },
        "unstable": [p.error_code for p in unstable.groups[0].topics[0].partitions],
    }


def _asked() -> m.OffsetFetchRequest.OffsetFetchRequestTopics:
    return m.OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1, 2])


def plain(value: object) -> object:
    """A described group as JSON: members and topics by their ids, bytes as hexadecimal text."""
    slots = getattr(type(value), "__slots__", None)
    if slots is not None:
        return {name: plain(getattr(value, name)) for name in slots}
    if isinstance(value, list):
        made = [plain(item) for item in value]
        return sorted(made, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the groups do not settle"


def copy(data: Path) -> None:
    for folder in sorted(data.glob("__consumer_offsets-*")):
        used = [path for path in folder.iterdir() if path.suffix == ".log" and path.stat().st_size]
        if used:
            target = HERE / "kafka-4.3.1" / folder.name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for path in used:
                shutil.copy(path, target)


if __name__ == "__main__":
    main()
