"""Kafka's metadata log is read whole, or not at all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.adoption.kafka_folder import AdoptionError
from penstock.adoption.metadata_log import UnreadableMetadata, read_metadata
from penstock.adoption.plan import make_plan
from penstock.adoption.release import _write_snapshot
from penstock.records.batch import iter_headers
from penstock.wire import messages as m
from penstock.wire.codec import decode, encode
from tests.adoption.folders import Recorded, tree


def segment(kafka: Recorded) -> Path:
    return kafka.metadata / "00000000000000000000.log"


def batches(kafka: Recorded) -> list[tuple[int, int]]:
    """Position and size of each batch."""
    return [(position, header.size) for position, header in iter_headers(segment(kafka).read_bytes())]


def change(path: Path, at: int, to: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= to
    path.write_bytes(data)


def is_refused(kafka: Recorded) -> bool:
    try:
        return bool(make_plan(kafka.folders).obstacles)
    except AdoptionError:
        return True


def test_a_changed_byte_is_never_passed_over(kafka: Recorded) -> None:
    rng = random.Random(1)
    for _ in range(40):
        at = rng.randrange(segment(kafka).stat().st_size)
        begin = max(position for position, _ in batches(kafka) if position <= at)
        if 12 <= at - begin < 16:
            continue  # the leader epoch, which no checksum covers, and which means nothing to topics
        flipped = rng.randrange(1, 256)
        change(segment(kafka), at, flipped)
        assert is_refused(kafka), at
        change(segment(kafka), at, flipped)
    assert not is_refused(kafka)


def test_a_log_that_was_cut_is_refused(kafka: Recorded) -> None:
    rng = random.Random(2)
    ends = [position for position, _ in batches(kafka)]
    data = segment(kafka).read_bytes()
    for size in [*rng.sample(ends, 12), *rng.sample(range(len(data)), 12)]:
        segment(kafka).write_bytes(data[:size])
        assert is_refused(kafka), size


def kill(kafka: Recorded) -> None:
    """As if Kafka had been killed: no marks of a clean stop."""
    for mark in kafka.root.rglob(".kafka_cleanshutdown"):
        mark.unlink()
    for snapshot in kafka.metadata.glob("*.snapshot"):
        snapshot.unlink()


@pytest.mark.parametrize("tail", [b"\0" * 300, None], ids=["zeros", "half a batch"])
def test_a_batch_that_a_crash_has_torn_was_never_written(kafka: Recorded, tail: bytes | None) -> None:
    kill(kafka)
    data = segment(kafka).read_bytes()
    position, size = batches(kafka)[-1]
    half = data[position : position + size // 2]
    segment(kafka).write_bytes(data + (half if tail is None else tail))
    plan = make_plan(kafka.folders)
    assert plan.obstacles == []
    assert len(plan.partitions) == 21
    assert any("unfinished record" in note for note in plan.notes)


def test_a_crash_does_not_excuse_damage_before_the_end(kafka: Recorded) -> None:
    kill(kafka)
    position, _ = batches(kafka)[-2]
    change(segment(kafka), position + 70, 1)
    assert is_refused(kafka)


def test_after_a_clean_stop_nothing_may_be_torn(kafka: Recorded) -> None:
    segment(kafka).write_bytes(segment(kafka).read_bytes() + b"\0" * 20)
    with pytest.raises(UnreadableMetadata, match="is damaged at byte"):
        read_metadata(kafka.metadata, was_stopped_cleanly=True)


def test_a_missing_segment_is_noticed(kafka: Recorded) -> None:
    data = segment(kafka).read_bytes()
    starts = batches(kafka)
    headers = dict(iter_headers(data))
    middle = starts[len(starts) // 2][0]
    last = starts[-1][0]
    (kafka.metadata / f"{headers[last].base_offset:020d}.log").write_bytes(data[last:])
    segment(kafka).write_bytes(data[:middle])
    with pytest.raises(UnreadableMetadata, match="a part of the metadata log is missing"):
        read_metadata(kafka.metadata, was_stopped_cleanly=True)


def test_several_segments_are_one_log(kafka: Recorded) -> None:
    whole = read_metadata(kafka.metadata, was_stopped_cleanly=True)
    data = segment(kafka).read_bytes()
    headers = dict(iter_headers(data))
    middle = batches(kafka)[30][0]
    (kafka.metadata / f"{headers[middle].base_offset:020d}.log").write_bytes(data[middle:])
    segment(kafka).write_bytes(data[:middle])
    assert read_metadata(kafka.metadata, was_stopped_cleanly=True) == whole


def test_a_snapshot_takes_the_place_of_the_log_before_it(kafka: Recorded) -> None:
    whole = read_metadata(kafka.metadata, was_stopped_cleanly=True)
    _write_snapshot(kafka.metadata, whole, [], 0)
    later = read_metadata(kafka.metadata, was_stopped_cleanly=True)
    assert later.end_offset == whole.end_offset + 1
    assert later.image.topics == {}
    assert later.quorum == whole.quorum


def test_a_damaged_snapshot_is_refused(kafka: Recorded) -> None:
    (snapshot,) = kafka.metadata.glob("*.checkpoint")
    change(snapshot, -5, 1)
    before = tree(kafka.root)
    assert is_refused(kafka)
    assert tree(kafka.root) == before


def test_voters_are_read_as_kafka_writes_them(kafka: Recorded) -> None:
    log = read_metadata(kafka.metadata, was_stopped_cleanly=True)
    voters = [value for value in log.quorum.values() if len(value) > 20]
    record = decode(m.VotersRecord, voters[0], 0)
    assert [voter.voter_id for voter in record.voters] == [1]
    assert encode(record, 0) == voters[0]
