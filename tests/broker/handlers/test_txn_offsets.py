"""TxnOffsetCommit over the wire."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Producer, Wire

NONE = ErrorCode.NONE
PROTOCOLS = pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])


def committed_offset(wire: Wire, group: str, topic: str, *, stable: bool = True) -> tuple[int, ErrorCode]:
    request = m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group,
                topics=[m.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ],
        require_stable=stable,
    )
    response = wire.ask(request, m.OffsetFetchResponse, 8)
    partition = response.groups[0].topics[0].partitions[0]
    return partition.committed_offset, ErrorCode(partition.error_code)


@PROTOCOLS
def test_offsets_are_committed_with_the_transaction(wire: Wire, topic: str, name: str, classic: bool) -> None:
    producer = Producer(wire, name, classic=classic).start()
    if classic:
        assert producer.add_offsets("group-" + name) == NONE
    assert producer.commit_offset("group-" + name, topic, 0, 42) == NONE
    assert committed_offset(wire, "group-" + name, topic) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert committed_offset(wire, "group-" + name, topic, stable=False) == (-1, NONE)
    assert producer.end(commit=True) == NONE
    assert committed_offset(wire, "group-" + name, topic) == (42, NONE)


@PROTOCOLS
def test_offsets_of_an_aborted_transaction_are_gone(wire: Wire, topic: str, name: str, classic: bool) -> None:
    producer = Producer(wire, name, classic=classic).start()
    if classic:
        assert producer.add_offsets("group-" + name) == NONE
    assert producer.commit_offset("group-" + name, topic, 0, 42) == NONE
    assert producer.end(commit=False) == NONE
    assert committed_offset(wire, "group-" + name, topic) == (-1, NONE)


def test_offsets_outside_the_transaction_are_refused(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name, classic=True).start()
    assert producer.commit_offset("group-" + name, topic, 0, 1, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset("group-" + name, topic, 0, 1, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.add_offsets("group-" + name) == NONE
    assert producer.commit_offset("group-" + name, "nowhere", 0, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset("group-" + name, topic, 0, 1, generation=5) == ErrorCode.ILLEGAL_GENERATION
    assert producer.commit_offset("group-" + name, topic, 0, 1) == NONE
    assert producer.end(commit=False) == NONE


def test_offsets_of_a_fenced_producer_are_refused(wire: Wire, topic: str, name: str) -> None:
    first = Producer(wire, name).start()
    Producer(wire, name).start()
    assert first.commit_offset("group-" + name, topic, 0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
