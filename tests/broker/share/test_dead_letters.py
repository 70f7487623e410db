"""Rejected and exhausted records leave a letter before they are archived (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.records.record import Record
from penstock.testing import Broker
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    acquired,
    fetch_all,
    initialize,
    produce,
    set_group_configs,
    topic_id,
    write_archiving,
)

RELEASE, REJECT = [2], [3]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.share.delivery.count.limit": 2}) as it:
        it.create_topic("jobs")
        it.create_topic("dlq.jobs", errors_deadletterqueue_group_enable="true")
        yield it


def headers(record: Record) -> dict[str, bytes | None]:
    return {name.removeprefix("__dlq.errors."): value for name, value in record.headers}


def test_rejected_and_exhausted_records_go_to_the_dead_letter_topic(wire: Wire) -> None:
    set_group_configs(
        wire, "g", errors_deadletterqueue_topic_name="dlq.jobs", errors_deadletterqueue_copy_record_enable="true"
    )
    produce(wire, "jobs", [b"poison", b"failing", b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    worker.fetch()
    worker.acknowledge({0: [(0, 2, [3, 2, 1])]})
    assert acquired(worker.fetch()) == [(1, 1, 2)]
    worker.acknowledge({0: [(1, 1, RELEASE)]})
    rejected, exhausted = fetch_all(wire, topic_id(wire, "dlq.jobs"))
    assert (rejected.value, exhausted.value) == (b"poison", b"failing")
    assert headers(rejected) == {
        "topic": b"jobs",
        "partition": b"0",
        "offset": b"0",
        "group": b"g",
        "delivery.count": b"1",
        "message": b"Offset rejected by client.",
    }
    assert headers(exhausted)["message"] == b"Offset delivery count exceeded the threshold."
    assert acquired(worker.fetch()) == []


def test_without_copies_a_letter_is_only_headers(wire: Wire) -> None:
    set_group_configs(wire, "g", errors_deadletterqueue_topic_name="dlq.jobs")
    produce(wire, "jobs", [b"poison"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    worker.fetch()
    worker.acknowledge({0: [(0, 0, REJECT)]})
    (letter,) = fetch_all(wire, topic_id(wire, "dlq.jobs"))
    assert (letter.key, letter.value) == (None, None)


@pytest.mark.parametrize("name", ["dlq.missing", "jobs.without.prefix"])
def test_a_record_that_cannot_be_buried_is_archived_all_the_same(wire: Wire, name: str) -> None:
    set_group_configs(wire, "g", errors_deadletterqueue_topic_name=name)
    produce(wire, "jobs", [b"poison", b"good"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    worker.fetch(max_records=1)
    response = worker.fetch(acks={0: [(0, 0, REJECT)]})
    assert acquired(response) == [(1, 1, 1)]


def test_a_letter_is_written_once_although_the_broker_crashed_in_between(broker: Broker, wire: Wire) -> None:
    """The state says ARCHIVING, the letter is there: what a crash leaves just before the record is archived."""
    set_group_configs(wire, "g", errors_deadletterqueue_topic_name="dlq.jobs")
    produce(wire, "jobs", [b"poison", b"good"])
    topic = topic_id(wire, "jobs")
    initialize(wire, "g", topic)
    worker = ShareMember(wire, "g", "m", topic)
    worker.fetch()
    worker.acknowledge({0: [(0, 0, REJECT)]})
    assert len(fetch_all(wire, topic_id(wire, "dlq.jobs"))) == 1
    initialize(wire, "g", topic, epoch=2)
    write_archiving(wire, topic)
    assert acquired(ShareMember(wire, "g", "m2", topic).fetch()) == [(1, 1, 1)]
    assert len(fetch_all(wire, topic_id(wire, "dlq.jobs"))) == 1


def test_a_letter_that_the_crash_prevented_is_written_afterwards(broker: Broker, wire: Wire) -> None:
    set_group_configs(wire, "g", errors_deadletterqueue_topic_name="dlq.jobs")
    produce(wire, "jobs", [b"poison", b"good"])
    topic = topic_id(wire, "jobs")
    initialize(wire, "g", topic)
    write_archiving(wire, topic)
    assert acquired(ShareMember(wire, "g", "m", topic).fetch()) == [(1, 1, 1)]
    assert len(fetch_all(wire, topic_id(wire, "dlq.jobs"))) == 1
