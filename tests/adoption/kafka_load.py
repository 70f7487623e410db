"""Fills an Apache Kafka with one of everything that a folder can hold: what `adopt` has to take over.

Everything is written through clients that nobody here wrote. `fill` leaves an open transaction and half-done queues;
`observe` asks a broker, Kafka or Penstock, for all that is to be equal afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ResourceType as AclResource

from penstock.client import AcknowledgeType, Admin, ResourceType, ShareConsumer
from tests.broker.share.share_client import ShareMember, Wire, acquired, topic_id

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "log.cleaner.backoff.ms": "200",
    "group.share.delivery.count.limit": "10",
}
RULE = AclBinding(
    AclResource.TOPIC,
    "orders",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
PATIENT = {"transaction.timeout.ms": 900_000}
"""An open transaction is still open when a busy machine has come round to looking."""
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}


def fill(
    bootstrap: str,
    records: int = 600,
    *,
    protocols: Sequence[str] = ("classic", "consumer"),
    has_queues: bool = True,
    has_users: bool = True,
) -> Producer:
    """Returns the producer whose transaction is open, which the caller must keep until the broker is stopped.

    `protocols`, `has_queues` and `has_users` are what the broker's version serves.
    """
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    topics = [
        NewTopic("orders", 3, 1, config={"retention.ms": "86400000", "segment.bytes": "1048576"}),
        NewTopic("customers", 2, 1, config=COMPACTED),
        NewTopic("jobs", 2, 1),
        NewTopic("payments", 2, 1),
        NewTopic("deleted", 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    admin.delete_topics(["deleted"])["deleted"].result(30)
    if has_users:
        _user(admin)

    producer = Producer({**settings, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(records):
        producer.produce("orders", value=b"order %d" % number + b"." * 100, key=b"%d" % number, partition=number % 3)
        producer.produce("customers", value=b"customer %d" % number, key=b"%d" % (number % 50), partition=number % 2)
        producer.produce("jobs", value=b"job %d" % number, partition=number % 2)
        producer.poll(0)
    producer.flush(60)

    transactional = Producer({**settings, "transactional.id": "billing"})
    transactional.init_transactions(30)
    for number in range(20):
        transactional.begin_transaction()
        transactional.produce("payments", value=b"payment %d" % number, partition=number % 2)
        if number % 5:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)
    for protocol in protocols:
        _group(settings, f"{protocol}-readers", protocol)
    if has_queues:
        asyncio.run(_half_done(bootstrap))
    return open_transaction(bootstrap)


def open_transaction(bootstrap: str) -> Producer:
    """Holds a record of a transaction that is neither committed nor aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "left-open", **PATIENT})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("payments", value=b"undecided", partition=0)
    producer.flush(30)
    return producer


def _user(admin: AdminClient) -> None:
    for future in admin.create_acls([RULE]).values():
        future.result(30)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("alice", credential, b"secret")]
    ).values():
        future.result(30)


def _group(settings: dict[str, Any], group: str, protocol: str) -> None:
    consumer = Consumer(
        {**settings, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    seen = 0
    while seen < 300:
        message = consumer.poll(30)
        if message is None or message.error():
            raise KafkaException(f"{group} reads nothing")
        seen += 1
    consumer.commit(asynchronous=False)
    consumer.close()


async def _half_done(bootstrap: str) -> None:
    """A queue with records that are accepted, rejected, released once or twice, and not delivered yet."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_configs(ResourceType.GROUP, "workers", {"share.auto.offset.reset": "earliest"})
    async with ShareConsumer(
        bootstrap_servers=bootstrap, group_id="workers", share_acknowledgement_mode="explicit", max_poll_records=100
    ) as worker:
        worker.subscribe(["jobs"])
        done = 0
        while done < 250:
            for record in await worker.poll(5000):
                done += 1
                if record.offset % 10 == 3 and record.delivery_count <= 1 + record.offset % 2:
                    worker.acknowledge(record, AcknowledgeType.RELEASE)
                elif record.offset % 10 in (6, 7):
                    worker.acknowledge(record, AcknowledgeType.REJECT)
                elif record.offset % 50 == 4 and record.delivery_count <= 2:
                    worker.acknowledge(record, AcknowledgeType.RELEASE)
                else:
                    worker.acknowledge(record, AcknowledgeType.ACCEPT)
            await worker.commit()


def observe(bootstrap: str, *, has_queues: bool = True, has_users: bool = True) -> dict[str, Any]:
    """What must be the same before and after; only the queue's records are delivered once more."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    names = ["orders", "customers", "jobs", "payments"]
    seen: dict[str, Any] = {"topics": sorted(name for name in admin.list_topics(timeout=30).topics)}
    seen["topic ids"] = {
        name: str(future.result(30).topic_id) for name, future in admin.describe_topics(_collection(names)).items()
    }
    for name, future in admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, n) for n in names]).items():
        seen[f"configs of {name.name}"] = {
            key: entry.value for key, entry in future.result(30).items() if entry.source == 1
        }
    if has_users:
        seen |= _users(admin)
    for isolation in ("read_uncommitted", "read_committed"):
        seen[isolation] = {name: read(settings, name, isolation) for name in names}
    for group in ("classic-readers", "consumer-readers"):
        seen[group] = _committed(settings, group)
    if has_queues:
        seen["records of the queue"] = _deliver(bootstrap)
        seen["queue"] = asyncio.run(_queue(bootstrap))
    return seen


def _users(admin: AdminClient) -> dict[str, Any]:
    rules = admin.describe_acls(
        AclBindingFilter(
            AclResource.ANY,
            None,  # type: ignore[arg-type]  # anything, as its documentation says
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
    ).result(30)
    described = admin.describe_user_scram_credentials()
    assert isinstance(described, Future)  # of all users, as none is named
    users = described.result(30)
    return {
        "acls": sorted(str(rule) for rule in rules),
        "users": sorted(
            (name, [(each.mechanism.name, each.iterations) for each in of.scram_credential_infos])
            for name, of in users.items()
        ),
    }


def delivered_once_more(records: list[list[int]]) -> list[list[int]]:
    """What the queue delivers after it was observed."""
    return [[partition, offset, deliveries + 1] for partition, offset, deliveries in records]


def _collection(names: list[str]) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(names)


def read(settings: dict[str, Any], topic: str, isolation: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {**settings, "group.id": "observer", "isolation.level": isolation, "enable.partition.eof": True}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    records: list[tuple[int, int, bytes | None, bytes | None]] = []
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(30)
        assert message is not None, f"{topic} does not end"
        if message.error():
            ended += 1
        else:
            index, offset = message.partition(), message.offset()
            assert index is not None
            assert offset is not None
            records.append((index, offset, message.key(), message.value()))
    consumer.close()
    return sorted(records, key=lambda record: record[:2])


def _committed(settings: dict[str, Any], group: str) -> list[tuple[int, int]]:
    consumer = Consumer({**settings, "group.id": group})
    found = consumer.committed([TopicPartition("orders", index) for index in range(3)], timeout=30)
    consumer.close()
    return [(each.partition, each.offset) for each in found]


async def _queue(bootstrap: str) -> Any:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        offsets = await admin.list_share_group_offsets("workers")
    return sorted([str(partition), offset.start_offset, offset.lag] for partition, offset in offsets.items())


def _deliver(bootstrap: str) -> list[list[int]]:
    """Every record that the queue still has to deliver, with its delivery count. All of them are given back at the end.

    Request by request, because a real consumer reads ahead.
    """
    address = SimpleNamespace(port=int(bootstrap.rpartition(":")[2]))
    with Wire(address) as wire:  # type: ignore[arg-type]
        worker = ShareMember(wire, "workers", "AAAAAAAAAAAAAAAAAAAAAg", topic_id(wire, "jobs"), version=1)
        seen: list[list[int]] = []
        silent = 0
        while silent < 2:
            answer = worker.fetch(partitions=(0, 1), max_records=10_000, max_wait_ms=100)
            ranges = [(partition, each) for partition in (0, 1) for each in acquired(answer, partition)]
            seen += [
                [partition, offset, deliveries]
                for partition, (first, last, deliveries) in ranges
                for offset in range(first, last + 1)
            ]
            silent = 0 if ranges or not seen else silent + 1
        worker.fetch(epoch=-1)
    return sorted(seen)
