"""`__share_group_state` as a real Apache Kafka wrote it loads into the windows that Kafka itself reported."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.broker.share.coordinator import coordinator_key
from penstock.queues.share_partition import SharePartition
from penstock.queues.state import ShareStateShard
from penstock.records.record import iter_batches_records
from penstock.wire.hashing import coordinator_partition

DATA = Path(__file__).parent / "data"
STATE_PARTITIONS = 3


def load_shards() -> list[ShareStateShard]:
    shards = [ShareStateShard(lambda _topic, _partition: True) for _ in range(STATE_PARTITIONS)]
    for index, shard in enumerate(shards):
        for segment in sorted((DATA / "kafka-4.3.1" / f"__share_group_state-{index}").glob("*.log")):
            for record in iter_batches_records(segment.read_bytes()):
                assert record.key is not None
                shard.replay(record.key, record.value)
    return shards


def test_the_windows_are_those_that_kafka_reported() -> None:
    shards = load_shards()
    expected = json.loads((DATA / "expected.json").read_text())
    topic_id = bytes.fromhex(expected["topic_id"])
    windows = 0
    for group, partitions in expected["groups"].items():
        for window in partitions:
            key = (group, topic_id, window["partition"])
            state = shards[coordinator_partition(coordinator_key(key), STATE_PARTITIONS)].get(key)
            assert state is not None, "the share-partition is kept where Kafka keeps it"
            assert (state.state_epoch, state.start_offset) == (window["state_epoch"], window["start_offset"])
            assert [list(batch) for batch in state.batches] == window["batches"]
            partition = SharePartition.restore(state.start_offset, state.batches)
            done = sum(last - first + 1 for first, last, kind, _ in window["batches"] if kind in (2, 4))
            assert state.delivery_complete_count == done, "Kafka's own count of what is done"
            moved = partition.start_offset - state.start_offset
            assert partition.delivery_complete_count == done - moved
            windows += 1
    assert windows == 4


def test_the_place_of_a_key_is_kafkas() -> None:
    key = ("g", bytes(15) + b"\1", 0)
    assert coordinator_key(key) == "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    assert coordinator_partition(coordinator_key(key), 50) == 23
