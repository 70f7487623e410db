"""A share group's reads never make the event loop wait for the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.broker.file_range import FileRange
from penstock.broker.share.windows import ShareWindows
from penstock.storage.contract import FetchSlice
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.cold_disk import drop_from_memory
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    acquired,
    fetch_all,
    initialize,
    produce,
    set_group_configs,
    topic_id,
    values,
    write_archiving,
)

ACCEPT, RELEASE, REJECT = [1], [2], [3]
WAIT_MS = 15_000
LARGE = [b"%d " % i + os.urandom(100_000) for i in range(10)]


class Disk:
    """Forgets what it has in memory when told to, and knows who has waited for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        """Who read from the disk to warm it up."""
        self.waited = 0
        """How often somebody read what was on disk only."""
        read, warm_up = FetchSlice.read, FileRange.warm_up

        def watched_read(found: FetchSlice) -> bytes:
            if found.file is not None and not FileRange(found.file, found.position, found.size).is_cached():
                self.waited += 1
            return read(found)

        def watched_warm_up(wanted: FileRange) -> None:
            self.threads.append(threading.current_thread().name)
            warm_up(wanted)

        monkeypatch.setattr(FetchSlice, "read", watched_read)
        monkeypatch.setattr(FileRange, "warm_up", watched_warm_up)

    def forget(self, broker: Broker, topic: str) -> None:
        self.threads.clear()
        for segment in broker.data.rglob(f"{topic}-0/*.log"):
            with segment.open("rb") as file:
                drop_from_memory(file.fileno())

    def check(self) -> None:
        assert self.waited == 0
        assert self.threads, "nothing was on disk only: nothing was shown"
        assert "penstock-broker" not in self.threads


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("jobs")
        it.create_topic("dlq.jobs", errors_deadletterqueue_group_enable="true")
        yield it


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def begin(broker: Broker, records: list[bytes]) -> bytes:
    """A group that has held all records, done the second and released the others, each in a batch of its own."""
    with Wire(broker) as wire:
        topic = topic_id(wire, "jobs")
        produce(wire, "jobs", records, batch_size=1)
        initialize(wire, "g", topic)
        worker = ShareMember(wire, "g", "m", topic)
        worker.fetch()
        worker.acknowledge({0: [(0, 0, RELEASE), (1, 1, ACCEPT), (2, len(records) - 1, RELEASE)]})
    return topic


def test_the_window_of_an_earlier_run_is_looked_over_when_a_thread_has_read_it(broker: Broker, disk: Disk) -> None:
    topic = begin(broker, LARGE)
    broker.restart()
    disk.forget(broker, "jobs")
    with Wire(broker) as wire:
        response = ShareMember(wire, "g", "m2", topic).fetch(max_wait_ms=WAIT_MS)
        assert values(response) == [LARGE[0], *LARGE[2:]]
    disk.check()


def test_records_that_come_again_are_read_by_a_thread(broker: Broker, disk: Disk) -> None:
    topic = begin(broker, LARGE)
    broker.restart()
    with Wire(broker) as wire:
        worker = ShareMember(wire, "g", "m2", topic)
        assert values(worker.fetch(max_records=1, max_wait_ms=WAIT_MS)) == LARGE[:1]
        disk.forget(broker, "jobs")
        got: list[bytes] = []
        while len(got) < 8:
            answer = values(worker.fetch(max_wait_ms=WAIT_MS))
            assert answer
            got += answer
        assert got == LARGE[2:]
    disk.check()


def test_records_are_copied_into_dead_letters_when_a_thread_has_read_them(
    broker: Broker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareWindows, "cache_bytes_max", lambda self: 0)  # memory is short: batches are read again
    with Wire(broker) as wire:
        set_group_configs(
            wire, "g", errors_deadletterqueue_topic_name="dlq.jobs", errors_deadletterqueue_copy_record_enable="true"
        )
        topic = topic_id(wire, "jobs")
        produce(wire, "jobs", LARGE, batch_size=1)
        initialize(wire, "g", topic)
        worker = ShareMember(wire, "g", "m", topic)
        assert acquired(worker.fetch()) == [(0, 9, 1)]
        disk.forget(broker, "jobs")
        worker.acknowledge({0: [(0, 9, REJECT)]})
        wait_for(lambda: len(fetch_all(wire, topic_id(wire, "dlq.jobs"))) == 10)
        assert [letter.value for letter in fetch_all(wire, topic_id(wire, "dlq.jobs"))] == LARGE
        assert acquired(worker.fetch()) == []
    disk.check()


def test_letters_of_an_earlier_run_are_looked_for_when_a_thread_has_read_them(broker: Broker, disk: Disk) -> None:
    with Wire(broker) as wire:
        set_group_configs(wire, "g", errors_deadletterqueue_topic_name="dlq.jobs")
        topic, letters = topic_id(wire, "jobs"), topic_id(wire, "dlq.jobs")
        produce(wire, "jobs", [b"poison", b"good"])
        initialize(wire, "g", topic)
        worker = ShareMember(wire, "g", "m", topic)
        worker.fetch()
        worker.acknowledge({0: [(0, 0, REJECT)]})
        assert len(fetch_all(wire, letters)) == 1
        initialize(wire, "g", topic, epoch=2)
        write_archiving(wire, topic)
        disk.forget(broker, "dlq.jobs")
        again = ShareMember(wire, "g", "m2", topic)
        assert acquired(again.fetch(max_wait_ms=WAIT_MS)) == [(1, 1, 1)]
        wait_for(lambda: start_offset(wire, topic) == 1)
        assert len(fetch_all(wire, letters)) == 1
    disk.check()


def start_offset(wire: Wire, topic: bytes) -> int:
    request = m.ReadShareGroupStateSummaryRequest
    partition = request.PartitionData(partition=0)
    body = request(group_id="g", topics=[request.ReadStateSummaryData(topic_id=topic, partitions=[partition])])
    response = wire.ask(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, body, m.ReadShareGroupStateSummaryResponse)
    return response.results[0].partitions[0].start_offset
