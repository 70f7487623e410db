"""The form of acknowledgements, checked before any state is looked at (reference: KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.queues.transitions import AcknowledgementBatch, AcknowledgeType
from penstock.wire.errors import InvalidRequest


class WireBatch(Protocol):
    """An AcknowledgementBatch of ShareFetch or ShareAcknowledge, as it came over the wire."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def check_batches(
    batches: Iterable[WireBatch], *, renew_supported: bool, is_renew_acknowledge: bool
) -> list[AcknowledgementBatch]:
    """Batches of one partition in the form that a share-partition takes; the first fault refuses all of them.

    Kafka lets a batch begin at the very offset where the one before ended; the share-partition refuses that then.
    """
    highest_type = AcknowledgeType.RENEW if renew_supported else AcknowledgeType.REJECT
    checked: list[AcknowledgementBatch] = []
    previous_last = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise InvalidRequest(f"The first offset {first} is greater than the last offset {last}.")
        if first < previous_last:
            raise InvalidRequest(f"The batches are not in order: {first} comes after {previous_last}.")
        if not types:
            raise InvalidRequest("A batch has no acknowledge types.")
        if len(types) > 1 and len(types) != last - first + 1:
            raise InvalidRequest(f"{len(types)} acknowledge types do not fit the offsets {first} to {last}.")
        if min(types) < AcknowledgeType.GAP or max(types) > highest_type:
            raise InvalidRequest(f"An acknowledge type is not one of 0 to {int(highest_type)}.")
        if not is_renew_acknowledge and AcknowledgeType.RENEW in types:
            raise InvalidRequest("A renewal needs IsRenewAck.")
        previous_last = last
        checked.append(AcknowledgementBatch(first, last, bytes(types)))
    return checked


def count_by_type(batches: Sequence[AcknowledgementBatch], start_offset: int = 0) -> dict[AcknowledgeType, int]:
    """How many records were acknowledged in which way, for the metrics.

    Gaps are nobody's answer, and what lies below the start offset was over before.
    """
    counts: dict[AcknowledgeType, int] = {}
    for first, last, types in batches:
        skipped = max(0, start_offset - first)
        if last < start_offset:
            continue
        own = types if len(types) == 1 else types[skipped:]
        for kind in set(own):
            if kind != AcknowledgeType.GAP:
                number = last - first + 1 - skipped if len(types) == 1 else own.count(kind)
                counts[AcknowledgeType(kind)] = counts.get(AcknowledgeType(kind), 0) + number
    return counts
