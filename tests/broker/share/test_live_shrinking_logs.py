"""A share group on a topic whose records are really compacted and really expire below it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from penstock.broker.server import Broker as Server
from penstock.broker.share.windows import ShareWindows
from penstock.records.batch import iter_headers
from penstock.records.builder import NewRecord, build_batch
from penstock.records.record import iter_batches_records
from penstock.testing import Broker
from tests.broker.share.share_client import (
    ACCEPT,
    RELEASE,
    ShareMember,
    Wire,
    acquired,
    initialize,
    produce_batch,
    topic_id,
    values,
)

WAIT_SECONDS = 30
KEYS = 10
T = TypeVar("T")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"log.cleaner.backoff.ms": 100, "log.retention.check.interval.ms": 100}) as it:
        yield it


def record(key: bytes, offset: int) -> NewRecord:
    """A record whose value begins with its offset."""
    return int(time.time() * 1000), key, b"%d " % offset + b"x" * 100, ()


def produce_versions(wire: Wire, first: int, last: int, *, versions_of_a_key: int = 1_000) -> None:
    """Batch by batch a new version of each of ten keys; now and then the keys change."""
    for version in range(first, last + 1):
        epoch = version // versions_of_a_key
        records = [record(b"key %d.%d" % (epoch, key), version * KEYS + key) for key in range(KEYS)]
        produce_batch(wire, "jobs", build_batch(records))


def offsets_of(got: list[bytes]) -> list[int]:
    return [int(value.split()[0]) for value in got]


def stored(broker: Broker) -> list[int]:
    """The offsets that the log still has."""

    def read(server: Server) -> list[int]:
        log = server.parts.cluster.hosted("jobs", 0).log
        found: list[int] = []
        offset = log.log_start_offset
        while data := log.read(offset, 1 << 20).read():
            found += [record.offset for record in iter_batches_records(data) if record.offset >= log.log_start_offset]
            offset = [header for _, header in iter_headers(data)][-1].next_offset
        return found

    return inside(broker, read)


def has_holes(broker: Broker) -> bool:
    kept = stored(broker)
    return len(kept) < kept[-1] - kept[0] + 1


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def inside(broker: Broker, function: Callable[[Server], T]) -> T:
    return broker._call(partial(function, broker._running()))


def log_start(server: Server) -> int:
    return server.parts.cluster.hosted("jobs", 0).log.log_start_offset


def start_offset(server: Server) -> int:
    topic = server.parts.cluster.topic("jobs")
    return server.parts.share_groups.windows.open("g", (topic.topic_id, 0)).core.start_offset


def test_batches_that_compaction_removed_while_they_were_held_are_over_when_they_come_back(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareWindows, "cache_bytes_max", lambda self: 0)  # memory is short: batches are read again
    broker.create_topic(
        "jobs", cleanup_policy="compact", internal_segment_bytes=10_000, min_cleanable_dirty_ratio="0.01"
    )
    produce_versions(wire, 0, 1)
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    assert acquired(worker.fetch(max_records=15)) == [(0, 14, 1)]
    produce_versions(wire, 2, 40)
    wait_for(lambda: min(stored(broker)) >= 2 * KEYS)
    response = worker.fetch(max_records=10_000, acks={0: [(0, 14, RELEASE)]})
    assert [count for _, _, count in acquired(response)] == [1] * len(acquired(response)), "what is gone came again"
    delivered = offsets_of(values(response))
    assert min(delivered) >= 2 * KEYS
    assert set(stored(broker)) <= set(delivered), "the cleaner may have gone on since"


def test_records_that_compaction_removed_from_inside_a_held_batch_are_over_when_they_come_back(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareWindows, "cache_bytes_max", lambda self: 0)
    broker.create_topic(
        "jobs", cleanup_policy="compact", internal_segment_bytes=10_000, min_cleanable_dirty_ratio="0.01"
    )
    mixed = [record(b"key 0.%d" % key if key % 2 else b"only %d" % key, key) for key in range(KEYS)]
    produce_batch(wire, "jobs", build_batch(mixed))
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    assert acquired(worker.fetch(max_records=KEYS)) == [(0, KEYS - 1, 1)]
    produce_versions(wire, 1, 40)
    wait_for(lambda: stored(broker)[1] == 2)  # only the even offsets have keys that did not come again
    ShareMember(wire, "g", "m2", topic_id(wire, "jobs")).fetch(max_records=1)
    again = acquired(worker.fetch(max_records=5, acks={0: [(0, KEYS - 1, RELEASE)]}))
    assert again == [(offset, offset, 2) for offset in range(0, KEYS, 2)]


def test_a_group_works_through_a_topic_that_is_compacted_and_expires_below_it(broker: Broker, wire: Wire) -> None:
    broker.create_topic(
        "jobs",
        cleanup_policy="compact,delete",
        internal_segment_bytes=10_000,
        min_cleanable_dirty_ratio="0.01",
        retention_bytes=30_000,
    )
    topic = topic_id(wire, "jobs")
    initialize(wire, "g", topic)
    worker = ShareMember(wire, "g", "m", topic)
    delivered: list[int] = []
    accepted: set[int] = set()
    deadline = time.monotonic() + WAIT_SECONDS
    held: list[tuple[int, int, int]] = []
    version = 0
    while version < 60 or held:
        assert time.monotonic() < deadline
        if version < 60:
            produce_versions(wire, version, version, versions_of_a_key=4)
            version += 1
            if version % 20 == 0:
                wait_for(partial(has_holes, broker))
        acks = {0: [(first, last, ACCEPT if count > 1 else RELEASE) for first, last, count in held]}
        accepted |= {offset for first, last, count in held if count > 1 for offset in range(first, last + 1)}
        response = worker.fetch(max_records=7, acks=acks if held else None)
        held = acquired(response)
        got = offsets_of(values(response))
        assert not accepted & set(got), "a record came again after it was accepted"
        delivered += got
    wait_for(lambda: inside(broker, log_start) > 0)
    kept = stored(broker)
    assert set(kept) <= set(delivered), "a record that is still there was never delivered"
    assert acquired(worker.fetch()) == []
    assert inside(broker, start_offset) == 60 * KEYS
    broker.restart()
    with Wire(broker) as again:
        assert acquired(ShareMember(again, "g", "m2", topic).fetch()) == []
