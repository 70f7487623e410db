"""What transactions mean for compaction.

Records of an aborted transaction are dropped on sight. A marker must outlive the last record of its transaction,
because consumers rely on it to end the transaction; when none is left it gets a delete horizon like a tombstone. The
entry of an aborted transaction stays in the index for exactly as long as there is a batch of it: an entry whose marker
is gone would make consumers drop the records of that producer's next transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.log.producer_state import EndMarker
from penstock.log.transaction_index import AbortedTransaction
from penstock.records.batch import TRANSACTIONAL, BatchHeader


class CleanedTransactions:
    """Follows the transactions as batches are read in the order of their offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(set(aborted), key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_batches: set[int] = set()
        self._committed_with_batches: set[int] = set()

    def data_batch(self, header: BatchHeader) -> bool:
        """Whether the batch's records were aborted."""
        self._advance(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        producer_id = header.producer_id
        aborted = self._aborted.get(producer_id)
        if aborted is not None and header.base_offset > aborted.last_offset:
            self._forget(producer_id)
            aborted = None
        if aborted is None:
            self._committed_with_batches.add(producer_id)
            return False
        self._aborted_with_batches.add(producer_id)
        return True

    def control_batch(self, header: BatchHeader, marker: EndMarker | None) -> tuple[bool, AbortedTransaction | None]:
        """Whether nothing is left of the transaction that the marker ends, and the index entry that it still needs."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if marker is None:
            return True, None
        if marker.commit:
            empty = producer_id not in self._committed_with_batches
            self._committed_with_batches.discard(producer_id)
            return empty, None
        aborted = self._aborted.get(producer_id)
        with_batches = producer_id in self._aborted_with_batches
        self._forget(producer_id)
        return (not with_batches, aborted if with_batches else None)

    def _advance(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            aborted = coming.pop()
            current = self._aborted.get(aborted.producer_id)
            if current is None or current.last_offset < aborted.first_offset:
                self._forget(aborted.producer_id)
                self._aborted[aborted.producer_id] = aborted

    def _forget(self, producer_id: int) -> None:
        self._aborted.pop(producer_id, None)
        self._aborted_with_batches.discard(producer_id)
