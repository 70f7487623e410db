"""The disk that forgets what was not synced."""

from __future__ import annotations

import random
from collections.abc import Callable

from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.simulation.disk import Disk, DiskLog
from penstock.storage.contract import LogConfig

TOPIC_ID = bytes(16)


class Owner:
    """Whoever has the disk: its timers run when the test says so."""

    def __init__(self, disk: Disk) -> None:
        self.later: list[Callable[[], None]] = []
        disk.attach(lambda callback: callback(), lambda seconds, callback: self.later.append(callback))

    def run(self) -> None:
        due, self.later = self.later, []
        for callback in due:
            callback()


def opened(seed: int = 1) -> tuple[Disk, DiskLog, Owner]:
    disk = Disk(random.Random(seed))
    owner = Owner(disk)
    log = disk.open_log("t", 0, TOPIC_ID, LogConfig())
    disk.opened()
    return disk, log, owner


def append(log: DiskLog, sequence: int = -1, producer_id: int = -1) -> int:
    batch = bytearray(
        build_batch([(0, None, b"v", ())], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        if producer_id >= 0
        else build_batch([(0, None, b"v", ())])
    )
    return log.append(batch, parse_header(batch), now_ms=0).position


def test_whoever_waits_is_answered_when_the_sync_is_over_and_not_before() -> None:
    disk, log, owner = opened()
    answers: list[object] = []
    disk.when_durable(log, append(log), answers.append)
    assert answers == []
    assert not log.is_durable
    owner.run()
    assert answers == [None]
    assert log.is_durable


def test_a_sync_covers_what_was_appended_before_it_began() -> None:
    disk, log, owner = opened()
    answers: list[object] = []
    disk.when_durable(log, append(log), answers.append)
    disk.when_durable(log, append(log), answers.append)
    owner.run()
    assert len(answers) == 1
    assert log.durable_end == 1
    owner.run()
    assert len(answers) == 2


def test_a_stalled_disk_answers_nobody() -> None:
    disk, log, owner = opened()
    answers: list[object] = []
    disk.when_durable(log, append(log), answers.append)
    disk.is_stalled = True
    owner.run()
    assert answers == []
    disk.is_stalled = False
    owner.run()
    assert answers == [None]


def test_a_killed_process_loses_nothing_and_a_power_cut_what_was_not_synced() -> None:
    ends = set()
    for seed in range(30):
        disk, log, owner = opened(seed)
        disk.make_durable_soon(log) if append(log) else None
        owner.run()
        for _ in range(3):
            append(log)
        disk.process_died(0)
        assert log.log_end_offset == 4
        losses = disk.power_cut(0)
        ends.add(log.log_end_offset)
        assert disk.may_have_lost_writes
        assert log.leader_epoch == 1
        assert [(each.first_offset, each.end_offset) for each in losses] == (
            [(log.log_end_offset, 4)] if log.log_end_offset < 4 else []
        )
    assert ends == {1, 2, 3, 4}


def test_producers_are_remembered_from_what_is_left() -> None:
    disk, log, owner = opened()
    first = append(log, sequence=0, producer_id=9)
    disk.when_durable(log, first, lambda failure: None)
    owner.run()
    append(log, sequence=1, producer_id=9)
    log.crashed(1, 0)
    assert log.knows_producer(9)
    assert append(log, sequence=1, producer_id=9) == 2
    assert append(log, sequence=1, producer_id=9) == 2


def test_a_clean_stop_leaves_everything_durable() -> None:
    disk, log, _ = opened()
    append(log)
    disk.close()
    assert log.is_durable
