"""Every engine answers alike: the contract of storage, checked on each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from penstock.records.batch import iter_headers, parse_header
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import iter_records
from penstock.storage.contract import (
    Appended,
    AppendOrigin,
    IsolationLevel,
    Log,
    LogConfig,
    Storage,
    StorageError,
)
from penstock.storage.local import LocalStorage
from penstock.storage.memory import MemoryStorage
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.storage import EngineSettings, ObjectStorage
from penstock.storage.objects.store import ObjectStore
from penstock.wire.errors import OffsetOutOfRange, OutOfOrderSequenceNumber

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig()
WAIT_SECONDS = 30

StartStorage = Callable[[], Storage]


def call_at_once(function: Callable[[], None]) -> None:
    function()


def start_local(folder: Path) -> StartStorage:
    return lambda: LocalStorage(folder, lambda: NOW, call_at_once, lambda error: None)


def start_objects(folder: Path) -> StartStorage:
    commits = MemoryCommitLog()
    store = ObjectStore.open("memory://")

    class Engine(ObjectStorage):
        def delete_log(self, log: Log) -> Callable[[], None]:
            free = super().delete_log(log)
            assert isinstance(log, ObjectLog)
            commits.delete(log.key)  # as the catalog does before
            return free

    def fail(error: StorageError) -> None:
        pytest.fail(str(error))

    def start() -> Storage:
        return Engine(folder, lambda: NOW, call_at_once, fail, commits, store, EngineSettings(node_id=1))

    return start


def start_memory() -> StartStorage:
    storage = MemoryStorage(call_at_once)
    return lambda: storage


@pytest.fixture(params=["local", "memory", "objects"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> StartStorage:
    """Starts the engine: a second time on what the first left behind."""
    if request.param == "objects":
        return start_objects(tmp_path)
    return start_local(tmp_path) if request.param == "local" else start_memory()


@pytest.fixture
def storage(start: StartStorage) -> Iterator[Storage]:
    storage = start()
    storage.opened()
    yield storage
    storage.close()


@pytest.fixture
def log(storage: Storage) -> Log:
    return storage.open_log("t", 0, TOPIC_ID, CONFIG)


def append(log: Log, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> Appended:
    """Append, and wait until readers may see it."""
    appended = log.append(batch, parse_header(batch), now_ms=NOW, origin=origin)
    deadline = time.monotonic() + WAIT_SECONDS
    while log.high_watermark < appended.position:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return appended


def plain(*values: str, timestamp: int = NOW) -> bytearray:
    return build_batch([(timestamp, None, value.encode(), []) for value in values])


def produced(sequence: int, *values: str, producer_id: int = 7, transactional: bool = False) -> bytearray:
    return build_batch(
        [(NOW, None, value.encode(), []) for value in values],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )


def end_transaction(log: Log, kind: ControlType, producer_id: int = 7) -> Appended:
    return append(log, end_marker_batch(kind, producer_id, 0, 3, NOW), AppendOrigin.MARKER)


def values(data: bytes) -> list[bytes | None]:
    return [
        bytes(record.value) if record.value is not None else None
        for position, header in iter_headers(data)
        if not header.is_control
        for record in iter_records(data, position)
    ]


def test_a_new_log_is_empty(log: Log) -> None:
    assert (log.topic, log.partition) == ("t", 0)
    assert log.log_start_offset == log.high_watermark == log.last_stable_offset == log.log_end_offset == 0
    assert log.size == 0
    assert log.is_durable
    assert log.read(0, 1000).read() == b""


def test_appends_get_offsets_and_are_read_back_as_whole_batches(log: Log) -> None:
    first = append(log, plain("a", "b"))
    second = append(log, plain("c"))
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset, second.position) == (2, 2, 3)
    assert log.log_end_offset == log.high_watermark == 3
    found = log.read(1, 1 << 20)
    assert values(found.read()) == [b"a", b"b", b"c"]
    assert found.size == log.size
    assert (found.log_start_offset, found.high_watermark, found.last_stable_offset) == (0, 3, 3)
    assert log.read(3, 1 << 20).size == 0


def test_a_read_keeps_to_its_limit_but_for_the_first_batch(log: Log) -> None:
    size = len(plain("a"))
    for value in "abc":
        append(log, plain(value))
    assert values(log.read(0, 2 * size + 1).read()) == [b"a", b"b"]
    assert values(log.read(0, 1).read()) == [b"a"]
    assert log.read(0, 1, min_one_batch=False).size == 0


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_the_log_is_refused(log: Log, offset: int) -> None:
    append(log, plain("a"))
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 1000)


def test_the_leader_epoch_and_the_offset_are_written_into_the_batch(log: Log) -> None:
    append(log, plain("a"))
    batch = plain("b")
    append(log, batch)
    header = parse_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1, log.leader_epoch)


def test_a_repeated_batch_is_answered_with_where_the_first_one_is(log: Log) -> None:
    append(log, produced(0, "a", "b"))
    again = append(log, produced(0, "a", "b"))
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (0, 1)
    assert log.log_end_offset == 2


def test_a_batch_out_of_order_is_refused_and_leaves_nothing(log: Log) -> None:
    append(log, produced(0, "a"))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(5, "b"))
    assert log.log_end_offset == 1


def test_a_producer_is_known_from_its_first_batch_until_it_expires(log: Log) -> None:
    assert not log.knows_producer(7)
    append(log, produced(0, "a", "b"))
    assert log.knows_producer(7)
    (producer,) = log.active_producers()
    assert (producer.producer_id, producer.last_sequence, producer.last_timestamp) == (7, 1, NOW)
    assert not producer.has_open_transaction
    log.expire_producers(NOW + CONFIG.producer_id_expiration_ms)
    assert not log.knows_producer(7)


def test_committed_readers_stop_at_an_open_transaction(log: Log) -> None:
    append(log, plain("a"))
    append(log, produced(0, "b", transactional=True))
    append(log, plain("c"))
    assert log.has_open_transaction(7, 0)
    assert not log.has_open_transaction(7, 1)
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert values(log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).read()) == [b"a"]
    assert [each.transaction_first_offset for each in log.active_producers()] == [1]
    end_transaction(log, ControlType.COMMIT)
    assert not log.has_open_transaction(7, 0)
    assert log.last_stable_offset == log.log_end_offset == 4
    found = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED)
    assert values(found.read()) == [b"a", b"b", b"c"]
    assert found.aborted == []


def test_committed_readers_are_told_of_aborted_transactions(log: Log) -> None:
    append(log, produced(0, "a", transactional=True))
    end_transaction(log, ControlType.ABORT)
    append(log, plain("b"))
    found = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED)
    assert found.aborted is not None
    assert [(each.producer_id, each.first_offset) for each in found.aborted] == [(7, 0)]
    assert log.read(0, 1 << 20).aborted is None


def test_a_timestamp_leads_to_the_first_record_at_or_after_it(log: Log) -> None:
    append(log, plain("a", timestamp=NOW))
    append(log, plain("b", timestamp=NOW + 20))
    append(log, plain("c", timestamp=NOW + 10))
    found = log.offset_for_timestamp(NOW + 5)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, NOW + 20, 0)
    assert log.offset_for_timestamp(NOW + 21) is None
    youngest = log.max_timestamp_offset()
    assert youngest is not None
    assert (youngest.offset, youngest.timestamp) == (1, NOW + 20)


def test_a_log_without_records_has_no_largest_timestamp(log: Log) -> None:
    assert log.max_timestamp_offset() is None


def test_the_current_epoch_ends_where_the_log_ends(log: Log) -> None:
    append(log, plain("a"))
    assert log.end_offset_for_epoch(log.leader_epoch) == (log.leader_epoch, 1)
    assert log.end_offset_for_epoch(log.leader_epoch + 1) == (-1, -1)
    assert log.earliest_epoch() == log.leader_epoch


def test_deleted_records_are_out_of_range(log: Log) -> None:
    for value in "abc":
        append(log, plain(value))
    assert log.delete_records(2, NOW) == log.log_start_offset == 2
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(4, NOW)
    assert log.delete_records(1, NOW) == 2
    assert log.delete_records(-1, NOW) == 3


def test_retention_drops_what_is_too_old(storage: Storage) -> None:
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=len(plain("a")), retention_ms=1000))
    append(log, plain("a", timestamp=NOW - 2000))
    append(log, plain("b", timestamp=NOW))
    assert log.apply_retention(NOW) == 1
    assert log.log_start_offset == 1
    assert values(log.read(1, 1000).read()) == [b"b"]


def test_retention_drops_what_is_too_much_after_the_config_changed(storage: Storage) -> None:
    size = len(plain("a"))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=size))
    for value in "abcd":
        append(log, plain(value))
    assert log.apply_retention(NOW) == 0
    log.update_config(LogConfig(segment_bytes=size, retention_bytes=2 * size))
    assert log.apply_retention(NOW) == 2
    assert log.log_start_offset == 2


def test_a_callback_comes_when_an_append_is_durable(storage: Storage, log: Log) -> None:
    done = Event()
    heard: list[StorageError | None] = []

    def callback(failure: StorageError | None) -> None:
        heard.append(failure)
        done.set()

    appended = append(log, produced(0, "a"))
    storage.when_durable(log, appended.position, callback)
    assert done.wait(WAIT_SECONDS)
    assert heard == [None]
    assert log.is_durable
    assert log.undurable_end(7) is None


def test_the_storage_lists_the_logs_that_are_in_use(storage: Storage, log: Log) -> None:
    other = storage.open_log("t", 1, TOPIC_ID, CONFIG)
    assert list(storage.logs()) == [log, other]
    storage.delete_log(other)()
    assert list(storage.logs()) == [log]


def test_a_deleted_log_is_empty_when_it_is_made_anew(storage: Storage, log: Log) -> None:
    append(log, plain("a"))
    storage.delete_log(log)()
    assert storage.open_log("t", 0, TOPIC_ID, CONFIG).log_end_offset == 0


def test_a_topic_does_not_get_the_records_of_an_earlier_one_with_its_name(storage: Storage, log: Log) -> None:
    append(log, plain("a"))
    assert storage.open_log("t", 0, bytes(16), CONFIG).log_end_offset == 0


def test_a_restart_finds_everything(start: StartStorage) -> None:
    storage = start()
    log = storage.open_log("t", 0, TOPIC_ID, CONFIG)
    storage.opened()
    storage.lost_writes_settled()
    append(log, plain("gone"))
    append(log, produced(0, "a", transactional=True))
    log.delete_records(1, NOW)
    storage.close()
    again = start()
    log = again.open_log("t", 0, TOPIC_ID, CONFIG)
    again.opened()
    assert not again.may_have_lost_writes
    assert (log.log_start_offset, log.last_stable_offset, log.log_end_offset) == (1, 1, 2)
    assert values(log.read(1, 1000).read()) == [b"a"]
    assert log.has_open_transaction(7, 0)
    assert append(log, produced(0, "a", transactional=True)).duplicate
    again.close()


@pytest.mark.parametrize("start", ["local", "memory"], indirect=True)
def test_a_log_that_the_catalog_does_not_know_is_set_aside(start: StartStorage) -> None:
    """The commit log of the object engine knows partitions by their topic's id, and a new topic gets a new one."""
    storage = start()
    append(storage.open_log("t", 0, TOPIC_ID, CONFIG), plain("a"))
    storage.close()
    again = start()
    again.opened()
    assert again.open_log("t", 0, TOPIC_ID, CONFIG).log_end_offset == 0
    again.close()


def test_a_compactor_has_nothing_to_do_in_an_empty_storage(storage: Storage) -> None:
    from penstock.storage.compaction import CleanerConfig

    compactor = storage.compactor(CleanerConfig(), lambda: None)
    compactor.poll(NOW)
    assert compactor.status(NOW).logs == []
    compactor.close()


def test_somebody_hears_when_the_start_of_a_log_is_durable(storage: Storage, log: Log) -> None:
    done = Event()
    heard: list[StorageError | None] = []

    def callback(failure: StorageError | None) -> None:
        heard.append(failure)
        done.set()

    append(log, plain("gone"))
    appended = Event()
    storage.when_durable(log, 1, lambda failure: appended.set())
    assert appended.wait(WAIT_SECONDS)
    assert log.delete_records(1, NOW) == 1
    storage.when_start_durable(log, callback)
    assert done.wait(WAIT_SECONDS)
    assert heard == [None]
