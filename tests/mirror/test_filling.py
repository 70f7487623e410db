"""Gaps are filled to the very offset, and nobody sees what fills them."""

from __future__ import annotations

import pytest

from penstock.client import Admin, TopicPartition
from penstock.client.types import IsolationLevel, OffsetSpec
from penstock.mirror import filling
from penstock.mirror.failures import TopicStopped
from penstock.mirror.filling import Filler
from penstock.mirror.lease import Lease
from penstock.mirror.source import read
from penstock.mirror.writer import Writer, log_end
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.mirror.test_writer import piece

TP = TopicPartition("t", 0)


async def filler_of(to: Admin) -> tuple[Filler, Writer, Lease]:
    if "t" not in {info.name for info in await to.list_topics()}:
        await to.create_topic("t", 1)
    lease = Lease(to.cluster, "penstock-mirror-x")
    await lease.take()
    writer = Writer(to, TP, 4711, 0)
    await writer.look()
    return Filler(to, lease), writer, lease


@pytest.mark.parametrize("size", [1, 2, 7, 5000])
async def test_a_gap_is_filled_to_the_offset_behind_it(to: Admin, size: int) -> None:
    filler, writer, _ = await filler_of(to)
    await writer.send(piece(0, 3))
    await filler.fill(writer, 3 + size)
    await writer.send(piece(3 + size, 4))
    await writer.flush()
    end = await log_end(to, TP)
    assert end == writer.end == size + 7
    assert [record.offset for record in await read(to, TP, 0, end)] == [0, 1, 2, *range(3 + size, 7 + size)]
    stable = await to.list_offsets({TP: OffsetSpec.LATEST}, isolation=IsolationLevel.READ_COMMITTED)
    assert stable[TP].offset == end


async def test_without_rights_on_the_cluster_transactions_fill_gaps(target: Broker, to: Admin) -> None:
    filler, writer, _ = await filler_of(to)
    target.fail("WriteTxnMarkers", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    target.drop("WriteTxnMarkers", times=None)  # it is not tried again
    await filler.fill(writer, 20)
    assert await log_end(to, TP) == 20


@pytest.mark.parametrize("fault", ["drop", "late"])
async def test_markers_whose_fate_is_unknown_are_not_written_twice(target: Broker, to: Admin, fault: str) -> None:
    filler, writer, lease = await filler_of(to)
    await filler.fill(writer, 1)
    if fault == "drop":
        target.drop("WriteTxnMarkers")
    else:
        target.fail("WriteTxnMarkers", ErrorCode.REQUEST_TIMED_OUT)
    epoch = lease.epoch
    await filler.fill(writer, 500)
    assert await log_end(to, TP) == 500
    assert lease.epoch > epoch, "what might still come is fenced"


async def test_markers_of_a_mirror_that_was_killed_come_too_late(to: Admin) -> None:
    filler, writer, killed = await filler_of(to)
    await filler.fill(writer, 3)
    another, writer, _ = await filler_of(to)
    await another.fill(writer, 10)
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
        killed.producer_id,
        killed.epoch,
        True,
        [m.WriteTxnMarkersRequest.WritableTxnMarkerTopic("t", [0])],
        0,
    )
    answer = await to.cluster.request(
        m.WriteTxnMarkersRequest(markers=[marker]), m.WriteTxnMarkersResponse, node=await to.cluster.leader(TP)
    )
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await log_end(to, TP) == 10


async def test_a_gap_that_would_take_hours_stops_the_topic(to: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "GAP_MAX", 100)
    filler, writer, _ = await filler_of(to)
    with pytest.raises(TopicStopped, match="a gap of 101 offsets"):
        await filler.fill(writer, 101)
