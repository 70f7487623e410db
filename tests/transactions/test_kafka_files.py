"""Files that a real Apache Kafka left behind (see data/make.py) mean here what they mean there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from penstock.log.results import IsolationLevel
from penstock.records.record import Record, iter_batches_records
from penstock.transactions.records import metadata_of, transactional_id_of, value_of
from penstock.transactions.shard import TransactionSettings, TransactionShard
from tests.transactions.harness import TV_2

DATA = Path(__file__).parent / "data"
KAFKA = DATA / "kafka-4.3.1"
EXPECTED = json.loads((DATA / "expected.json").read_text())


def state_records() -> Iterator[Record]:
    for segment in sorted(KAFKA.glob("__transaction_state-*/*.log")):
        yield from iter_batches_records(segment.read_bytes())


def no_producer_ids() -> int:
    raise AssertionError("replay needs no producer id")


def test_the_state_of_every_transactional_id_is_the_one_kafka_shows() -> None:
    shard = TransactionShard(coordinator_epoch=0, settings=TransactionSettings(), new_producer_id=no_producer_ids)
    for record in state_records():
        assert record.key is not None
        shard.replay(bytes(record.key), None if record.value is None else bytes(record.value))
    for transactional_id, (state, producer_id, epoch, partitions) in EXPECTED["transactions"].items():
        description = shard.describe(transactional_id)
        assert (description.transaction_state, description.producer_id, description.producer_epoch) == (
            state,
            producer_id,
            epoch,
        )
        assert sum(len(topic.partitions) for topic in description.topics) == partitions


def test_every_record_is_written_back_byte_for_byte() -> None:
    values = 0
    for record in state_records():
        assert record.key is not None
        assert record.value is not None
        transactional_id = transactional_id_of(bytes(record.key))
        assert transactional_id is not None
        meta = metadata_of(transactional_id, bytes(record.value))
        assert meta is not None
        ours = value_of(meta, TV_2)
        if len({topic for topic, _ in meta.partitions}) < 2:
            assert ours == record.value
        else:  # Kafka writes the topics in the order of a hash table
            assert (len(ours), metadata_of(transactional_id, ours)) == (len(record.value), meta)
        values += 1
    assert values > 10


@pytest.mark.parametrize("partition", [0, 1])
def test_a_transactional_topic_has_kafkas_last_stable_offset_aborted_ranges_and_producers(
    tmp_path: Path, partition: int
) -> None:
    shutil.copytree(KAFKA / f"orders-{partition}", tmp_path / f"orders-{partition}")
    log = PartitionLog.open(tmp_path, "orders", partition, b"\1" * 16, LogConfig(), now_ms=1_800_000_000_000)
    expected = EXPECTED["orders"][str(partition)]
    assert (log.last_stable_offset, log.log_end_offset) == (expected["lso"], expected["end"])
    producers = [
        [state.producer_id, state.producer_epoch, state.last_sequence, state.current_txn_first_offset]
        for state in log.producer_state.entries.values()
    ]
    assert sorted(producers) == sorted(expected["producers"])
    index = (KAFKA / f"orders-{partition}" / "00000000000000000000.txnindex").read_bytes()
    aborted = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted
    assert aborted is not None
    assert [(entry.producer_id, entry.first_offset) for entry in aborted] == [
        (int.from_bytes(index[at + 2 : at + 10], "big"), int.from_bytes(index[at + 10 : at + 18], "big"))
        for at in range(0, len(index), 34)
    ]
    log.close()
