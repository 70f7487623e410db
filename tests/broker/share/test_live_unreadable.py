"""A batch that nobody can read does not stop a queue: its records are archived with a reason, and everybody goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.queues import assembly
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.records.cutting import OpenedBatch
from penstock.testing import Broker
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    acquired,
    broken_batch,
    fetch_all,
    initialize,
    produce,
    produce_batch,
    set_group_configs,
    topic_id,
    values,
)

ACCEPT, RELEASE, REJECT = [1], [2], [3]
UNREADABLE = b"Offset lies in a record batch that cannot be read."


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.share.min.record.lock.duration.ms": 1000}) as it:
        it.create_topic("jobs", 2)
        it.create_topic("dlq.jobs", errors_deadletterqueue_group_enable="true")
        yield it


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last + 1)]


def rot(broker: Broker, what: bytes) -> None:
    """Let a byte of a stored record rot on the disk."""
    [segment] = broker.data.rglob("jobs-0/*.log")
    data = bytearray(segment.read_bytes())
    data[data.index(what)] ^= 0x20
    with segment.open("r+b") as file:
        file.write(data)


def work_off(wire: Wire, group: str = "g", *, max_records: int = 7) -> list[bytes]:
    """What a consumer gets that accepts everything, until there is nothing more."""
    worker = ShareMember(wire, group, f"{group}-m", topic_id(wire, "jobs"))
    got: list[bytes] = []
    response = worker.fetch(max_records=max_records)
    while ranges := acquired(response):
        got += values(response)
        response = worker.fetch(max_records=max_records, acks={0: [(first, last, ACCEPT) for first, last, _ in ranges]})
    return got


def test_a_queue_goes_on_behind_a_batch_whose_compressed_part_is_broken_batch(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    produce(wire, "jobs", numbers(0, 19))
    produce_batch(wire, "jobs", broken_batch(100))
    produce(wire, "jobs", numbers(120, 139))
    initialize(wire, "g", topic_id(wire, "jobs"))
    with caplog.at_level(logging.ERROR, logger="penstock.share"):
        assert work_off(wire) == [*numbers(0, 19), *numbers(120, 139)]
    said = [record.getMessage() for record in caplog.records if "unreadable" in record.getMessage()]
    assert said == [
        "100 records of jobs-0 are archived for group 'g': the batch of offsets 20 to 119 is unreadable: "
        + said[0].rpartition("unreadable: ")[2]
    ]


def test_a_batch_that_unpacks_beyond_the_limit_is_archived(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "OpenedBatch", lambda raw: OpenedBatch(raw, limit=10_000))
    produce_batch(wire, "jobs", build_batch([(0, None, bytes(1_000), ()) for _ in range(100)], codec=Codec.ZSTD))
    produce(wire, "jobs", numbers(100, 109))
    initialize(wire, "g", topic_id(wire, "jobs"))
    assert work_off(wire) == numbers(100, 109)


def test_rot_is_not_delivered_as_good_by_a_cut(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [*numbers(0, 9), b"precious", *numbers(11, 19)])
    produce(wire, "jobs", numbers(20, 29))
    initialize(wire, "g", topic_id(wire, "jobs"))
    rot(broker, b"precious")
    assert work_off(wire) == numbers(20, 29)


def test_the_records_of_an_unreadable_batch_leave_dead_letters_without_contents(wire: Wire) -> None:
    set_group_configs(
        wire, "g", errors_deadletterqueue_topic_name="dlq.jobs", errors_deadletterqueue_copy_record_enable="true"
    )
    produce_batch(wire, "jobs", broken_batch(10))
    produce(wire, "jobs", [b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    assert work_off(wire) == [b"good"]
    letters = fetch_all(wire, topic_id(wire, "dlq.jobs"))
    assert [dict(letter.headers)["__dlq.errors.offset"] for letter in letters] == numbers(0, 9)
    assert {dict(letter.headers)["__dlq.errors.message"] for letter in letters} == {UNREADABLE}
    assert {(letter.key, letter.value) for letter in letters} == {(None, None)}


@pytest.mark.parametrize("cause", ["broken", "rotten"])
def test_a_rejected_batch_that_cannot_be_copied_is_buried_without_its_contents(
    broker: Broker, wire: Wire, cause: str
) -> None:
    set_group_configs(
        wire, "g", errors_deadletterqueue_topic_name="dlq.jobs", errors_deadletterqueue_copy_record_enable="true"
    )
    if cause == "broken":
        produce_batch(wire, "jobs", broken_batch(10))
    else:
        produce(wire, "jobs", [b"precious"] * 10)
        rot(broker, b"precious")
    produce(wire, "jobs", [b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    assert acquired(worker.fetch(max_records=10)) == [(0, 9, 1)], "a whole batch goes out as it is stored"
    response = worker.fetch(acks={0: [(0, 9, REJECT)]})
    assert values(response) == [b"good"]
    letters = fetch_all(wire, topic_id(wire, "dlq.jobs"))
    assert [letter.value for letter in letters] == [None] * 10
    broker.restart()
    with Wire(broker) as again:
        assert values(ShareMember(again, "g", "m2", topic_id(again, "jobs")).fetch()) == [b"good"]


def test_a_delivery_time_in_an_unreadable_batch_holds_nobody_up(wire: Wire) -> None:
    set_group_configs(wire, "g", penstock_share_delivery_time_header="deliver.at")
    produce_batch(wire, "jobs", broken_batch(10, ("deliver.at", b"99999999999999")))
    produce(wire, "jobs", [b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    assert work_off(wire, max_records=500) == [b"good"]


def test_an_unreadable_batch_stays_archived_after_a_restart(broker: Broker, wire: Wire) -> None:
    produce_batch(wire, "jobs", broken_batch(10))
    produce(wire, "jobs", [b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    assert acquired(worker.fetch(max_records=1)) == [(10, 10, 1)]
    broker.restart()
    with Wire(broker) as again:
        assert acquired(ShareMember(again, "g", "m2", topic_id(again, "jobs")).fetch()) == [(10, 10, 2)]
