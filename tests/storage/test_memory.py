"""What only the engine in memory can show: appends that are not committed yet, and a leader that lost its office."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch
from penstock.storage.contract import Appended, AppendOrigin, LeadershipLost, LogConfig, StorageError
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.wire.errors import NotLeaderOrFollower, OffsetOutOfRange

NOW = 1_700_000_000_000


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(lambda function: function())


@pytest.fixture
def log(storage: MemoryStorage) -> MemoryLog:
    return storage.open_log("t", 0, bytes(16), LogConfig())


def append(log: MemoryLog, *, producer_id: int = -1) -> Appended:
    batch = build_batch(
        [(NOW, None, b"v", [])],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    return log.append(batch, parse_header(batch), now_ms=NOW)


def test_a_held_append_is_not_visible_until_it_is_committed(storage: MemoryStorage, log: MemoryLog) -> None:
    woken: list[int] = []
    heard: list[StorageError | None] = []
    log.on_high_watermark = lambda: woken.append(log.high_watermark)
    storage.hold_commits()
    appended = append(log)
    storage.when_durable(log, appended.position, heard.append)
    assert (log.high_watermark, log.log_end_offset, log.is_durable) == (0, 1, False)
    assert log.read(0, 1000).size == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)
    assert (woken, heard) == ([], [])
    storage.commit()
    assert (log.high_watermark, log.is_durable) == (1, True)
    assert (woken, heard) == ([1], [None])


def test_a_transaction_counts_as_open_until_its_marker_is_committed(storage: MemoryStorage, log: MemoryLog) -> None:
    append(log, producer_id=7)
    storage.hold_commits()
    marker = end_marker_batch(ControlType.COMMIT, 7, 0, 0, NOW)
    log.append(marker, parse_header(marker), now_ms=NOW, origin=AppendOrigin.MARKER)
    assert log.last_stable_offset == 0
    storage.commit()
    assert log.last_stable_offset == 2


def test_what_a_producer_wrote_is_durable_when_it_is_committed(storage: MemoryStorage, log: MemoryLog) -> None:
    storage.hold_commits()
    append(log, producer_id=7)
    assert log.undurable_end(7) == 1
    storage.commit()
    assert log.undurable_end(7) is None


def test_a_leader_that_lost_its_office_answers_nobody(storage: MemoryStorage, log: MemoryLog) -> None:
    heard: list[StorageError | None] = []
    storage.hold_commits()
    appended = append(log)
    storage.when_durable(log, appended.position, heard.append)
    storage.lose_leadership(log)
    storage.when_durable(log, appended.position, heard.append)
    assert [type(failure) for failure in heard] == [LeadershipLost, LeadershipLost]
    with pytest.raises(NotLeaderOrFollower):
        append(log)
    with pytest.raises(NotLeaderOrFollower):
        log.read(0, 1000)


def test_a_log_that_is_led_anew_ends_where_it_was_committed(storage: MemoryStorage, log: MemoryLog) -> None:
    changes: list[tuple[bool, int]] = []
    log.on_leadership = lambda: changes.append((log.is_leader, log.leader_epoch))
    append(log, producer_id=7)
    storage.hold_commits()
    append(log)
    storage.lose_leadership(log)
    storage.commit()
    storage.gain_leadership(log)
    assert changes == [(False, 0), (True, 1)]
    assert log.log_end_offset == log.high_watermark == 1
    assert log.has_open_transaction(7, 0)
    assert append(log, producer_id=7).duplicate
    assert append(log).base_offset == 1
    assert log.end_offset_for_epoch(0) == (0, 1)


def test_refused_appends_are_gone_and_the_leader_goes_on(storage: MemoryStorage, log: MemoryLog) -> None:
    heard: list[StorageError | None] = []
    storage.hold_commits()
    storage.when_durable(log, append(log, producer_id=7).position, heard.append)
    storage.refuse_appends(log)
    [failure] = heard
    assert isinstance(failure, StorageError)
    assert not isinstance(failure, LeadershipLost)
    assert (log.is_leader, log.leader_epoch, log.log_end_offset) == (True, 1, 0)
    assert not log.knows_producer(7)


@given(st.lists(st.sampled_from(["append", "begin", "end", "hold", "commit", "refuse", "lose", "gain"]), max_size=30))
def test_offsets_keep_their_order_and_what_was_seen_stays(steps: list[str]) -> None:
    """Whatever happens, the high watermark never goes back, and the last stable offset never passes it."""
    storage = MemoryStorage(lambda function: function())
    log = storage.open_log("t", 0, bytes(16), LogConfig())
    heard: list[tuple[int, StorageError | None]] = []
    seen = b""
    producer_id = 0

    def hear(at: int, failure: StorageError | None) -> None:
        heard.append((at, failure))

    for step in steps:
        before = log.high_watermark
        try:
            if step == "append":
                position = append(log).position
                storage.when_durable(log, position, partial(hear, position))
            elif step == "begin":
                producer_id += 1
                append(log, producer_id=producer_id)
            elif step == "end" and producer_id:
                marker = end_marker_batch(ControlType.COMMIT, producer_id, 0, 0, NOW)
                log.append(marker, parse_header(marker), now_ms=NOW, origin=AppendOrigin.MARKER)
        except NotLeaderOrFollower:
            assert not log.is_leader
        if step == "hold":
            storage.hold_commits()
        elif step == "commit":
            storage.commit()
        elif step == "refuse" and log.is_leader:
            storage.refuse_appends(log)
        elif step == "lose":
            storage.lose_leadership(log)
        elif step == "gain" and not log.is_leader:
            storage.gain_leadership(log)
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert before <= log.high_watermark
        assert all(failure is not None or at <= log.high_watermark for at, failure in heard)
        if log.is_leader:
            visible = log.read(0, 1 << 20).read()
            assert visible.startswith(seen)
            seen = visible
