"""Markers in a partition: who sees them, and what they do to offsets that were committed inside the transaction."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.broker.transaction_markers import TransactionMarkers
from penstock.records.batch import parse_header
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records
from penstock.storage.contract import AppendOrigin
from penstock.transactions.metadata import TransactionVersion
from penstock.transactions.shard import WriteMarkers
from penstock.wire.errors import CoordinatorLoadInProgress
from tests.coordination.simulated import SimulatedTime


class Partition:
    def __init__(self, topic: str) -> None:
        self.topic = SimpleNamespace(name=topic)
        self.index = 3
        self.log = self
        self.batches: list[bytes] = []
        self.wakes = 0

    def append(self, batch: memoryview, header: object, *, origin: AppendOrigin, **fields: object) -> str:
        assert origin is AppendOrigin.MARKER
        self.batches.append(bytes(batch))
        return "appended"

    def wake(self) -> None:
        self.wakes += 1


class Groups:
    def __init__(self, *, is_loaded: bool = True) -> None:
        self._is_loaded = is_loaded
        self.shard = self
        self.ended: list[tuple[int, bool]] = []

    def handle(self, index: int) -> Groups:
        assert index == 3
        if not self._is_loaded:
            raise CoordinatorLoadInProgress
        return self

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        self.ended.append((producer_id, commit))


def write(partition: Partition, groups: Groups, *, commit: bool) -> object:
    tp = (partition.topic.name, partition.index)
    markers = WriteMarkers("shop", 7, 2, commit, 5, TransactionVersion.TV_2, (tp,))
    return TransactionMarkers(lambda: groups, SimulatedTime()).append(partition, markers)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_tells_the_outcome_and_wakes_the_readers(commit: bool) -> None:
    partition, groups = Partition("orders"), Groups()
    assert write(partition, groups, commit=commit) == "appended"
    [batch] = partition.batches
    header = parse_header(batch)
    assert (header.is_control, header.producer_id, header.producer_epoch) == (True, 7, 2)
    [record] = iter_records(batch, 0)
    assert parse_control(record).kind == (ControlType.COMMIT if commit else ControlType.ABORT)
    assert partition.wakes == 1
    assert groups.ended == []


def test_offsets_take_effect_with_their_marker() -> None:
    partition, groups = Partition("__consumer_offsets"), Groups()
    write(partition, groups, commit=True)
    assert groups.ended == [(7, True)]


def test_no_marker_is_written_into_offsets_that_are_still_being_loaded() -> None:
    partition = Partition("__consumer_offsets")
    with pytest.raises(CoordinatorLoadInProgress):
        write(partition, Groups(is_loaded=False), commit=True)
    assert partition.batches == []
