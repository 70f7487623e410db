"""Fills gaps: moves the end of a target's partition on by offsets that no reader sees.

Each offset of a gap is taken by a marker. One marker is one transaction (`Lease.mark`), some milliseconds; the
transactions of many partitions are one. For more than a few, WriteTxnMarkers puts thousands into one request. It needs
ALTER or CLUSTER_ACTION on the cluster; without them the transactions do all of it.

WriteTxnMarkers goes past the coordinator, so a request that is still on its way when its mirror dies is not fenced by
the lease. Two rules make it harmless. It never takes the last offset of a gap. And the first marker that a mirror, or
an epoch of it, writes into a partition comes from the coordinator, with the new epoch: there is room for it by the
first rule, and behind it the partition refuses the markers of older epochs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.client.errors import check
from penstock.client.types import TopicPartition
from penstock.mirror.failures import TopicStopped, Unsettled
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.mirror.lease import Lease
    from penstock.mirror.writer import Writer

GAP_MAX = 20_000_000
"""A gap beyond this would take hours and gigabytes of markers."""

_AT_ONCE = 2_000
_WORTH_A_REQUEST = 4
_MARKER_WAIT_S = 0.002
_MARKER_WAITS = 2_000
_DENIED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})


class Filler:
    def __init__(self, target: Admin, lease: Lease) -> None:
        self._target = target
        self._lease = lease
        self._fenced: dict[TopicPartition, tuple[int, int]] = {}
        """The producer and the epoch of the lease whose markers a partition takes, and of none before."""
        self._looked: dict[TopicPartition, int] = {}
        """The generation of the lease in which a partition was looked at, and filled by no other mirror since."""
        self._may_write_markers = True

    async def fill(self, writer: Writer, upto: int) -> None:
        """Move the end of a partition to `upto`."""
        await writer.flush()
        generation = self._lease.generation
        if self._looked.get(writer.tp) != generation:
            before = writer.end
            await writer.look_at_end()
            if writer.end != before:
                raise Unsettled(f"{writer.tp} ends at {writer.end} and not at {before}")
            self._looked[writer.tp] = generation
        size = upto - writer.end
        if size > GAP_MAX:
            raise TopicStopped(
                f"{writer.tp} has a gap of {size:,} offsets before offset {upto:,}, which is more than the "
                f"{GAP_MAX:,} that can be filled. Exclude the topic, and move its live records with a program of yours"
            )
        writer.reserved = upto
        while writer.end < upto:
            before = writer.end
            left = upto - before
            holder = self._lease.producer_id, self._lease.epoch
            if left > _WORTH_A_REQUEST and self._may_write_markers and self._fenced.get(writer.tp) == holder:
                await self._write_markers(writer, min(left - 1, _AT_ONCE))
            else:
                await self._lease.mark(writer.tp, generation)
                await self._await_marker(writer, before)
                self._fenced[writer.tp] = holder
        if writer.end > upto:
            raise Unsettled(f"{writer.tp} ends at {writer.end}, behind the gap that was to end at {upto}")

    async def _await_marker(self, writer: Writer, before: int) -> None:
        """The coordinator writes the marker after it has answered."""
        for _ in range(_MARKER_WAITS):
            await writer.look_at_end()
            if writer.end > before:
                return
            await asyncio.sleep(_MARKER_WAIT_S)
        raise Unsettled(f"the marker for {writer.tp} has not come")

    async def _write_markers(self, writer: Writer, count: int) -> None:
        tp = writer.tp
        cluster = self._target.cluster
        marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=self._lease.producer_id,
            producer_epoch=self._lease.epoch,
            transaction_result=True,
            topics=[m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=max(await writer.coordinator_epoch(self._lease.producer_id), 0),
        )
        try:
            answer = await cluster.request(
                m.WriteTxnMarkersRequest(markers=[marker] * count),
                m.WriteTxnMarkersResponse,
                node=await cluster.leader(tp),
            )
            for written in answer.markers:
                for topic in written.topics:
                    for p in topic.partitions:
                        check(p.error_code, about=f"markers in {tp}")
        except KafkaError as error:
            if error.code in _DENIED:
                self._may_write_markers = False
                return
            await self._lease.renew()  # some of them may still be on their way
            await writer.look()
            if not error.retriable:
                raise Unsettled(str(error)) from error
            return
        await writer.look_at_end()
