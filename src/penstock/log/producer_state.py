"""What a partition remembers of its idempotent and transactional producers (KIP-98, KIP-890).

Per producer id: its epoch, its last five batches (so that a retry is recognized and answered with the offset it got
the first time), and the first offset of its open transaction. From the open transactions follows the last stable
offset: `read_committed` consumers never see past the first record whose fate is undecided.

A batch is *checked* before it is written and *applied* after, so that a failed write leaves no trace. The order of the
checks is Kafka's, because clients react to the exact error: a duplicate first (a retry may arrive after the transaction
was ended), then the epoch, the sequence, the kind of write.

State is saved in Kafka's `.snapshot` files, named by the offset up to which they are true, and recovered from the
newest one plus a replay of the batches after it. Kafka's entries have room for the last batch of each producer. The
earlier ones follow behind them, where Kafka's readers do not look and its checksum still covers them: a retry is
recognized after a restart as before it, which Kafka itself does for the last batch only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from penstock.log.files import write_file
from penstock.log.results import ActiveProducer
from penstock.log.transaction_index import AbortedTransaction
from penstock.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from penstock.records.checksum import crc32c
from penstock.wire.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)

BATCHES_REMEMBERED = 5
_SEQUENCE_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1
_NO_EPOCH = -1

_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_EARLIER_HEAD = struct.Struct(">8sh")
_EARLIER_TAG = b"penstock"
_EARLIER_VERSION = 1
_EARLIER_COUNT = struct.Struct(">b")
_EARLIER_BATCH = struct.Struct(">iqiq")


class AppendOrigin(Enum):
    """Who appends, which decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """A coordinator's own records, such as offset commits inside a transaction: they carry no sequence numbers."""
    MARKER = "marker"
    """The control batch that ends a transaction."""


class CorruptSnapshot(Exception):
    """A producer snapshot that is torn or damaged; an older one and a longer replay take its place."""


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class EndMarker(NamedTuple):
    """The content of a control record that ends a transaction."""

    commit: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    aborted: bool
    last_stable_offset: int
    """Once this transaction is completed."""

    def index_entry(self) -> AbortedTransaction:
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class ProducerEntry:
    """One producer's state. `batches` is oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "seen_ms",
    )

    def __init__(self, producer_id: int, producer_epoch: int = _NO_EPOCH, seen_ms: int = 0) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = -1
        self.batches: list[BatchMetadata] = []
        self.next_sequence = 0
        self.seen_ms = seen_ms
        """When it last appended by the broker's clock: a producer that sends no timestamps must not look expired."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def change_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
            self.next_sequence = 0

    def add_batch(self, metadata: BatchMetadata) -> None:
        batches = self.batches
        batches.append(metadata)
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        self.next_sequence = (metadata.last_sequence + 1) & _SEQUENCE_MAX
        self.last_timestamp = metadata.timestamp

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for metadata in self.batches:
            if metadata.last_sequence == last and metadata.first_sequence == first:
                return metadata
        return None


class ProducerState:
    """All producers of one partition."""

    __slots__ = ("_ongoing", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # First offset -> producer id. A transaction that starts later starts at a higher offset, so the order of
        # insertion is the order of offsets and the first key decides the last stable offset.
        self._ongoing: dict[int, int] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        for first_offset in self._ongoing:
            return first_offset
        return None

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.producer_epoch == producer_epoch and entry.current_txn_first_offset >= 0

    def active_producers(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
            for entry in self.entries.values()
        ]

    # Before the write

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        marker: EndMarker | None,
        transaction_version: int,
    ) -> BatchMetadata | None:
        """Raise the error that forbids the append, or return the earlier batch that this one repeats, or None."""
        entry = self.entries.get(header.producer_id)
        if marker is not None:
            if entry is not None:
                _check_marker(entry, header, marker, transaction_version)
            return None
        if origin is AppendOrigin.CLIENT and entry is not None:
            if (
                header.base_sequence == entry.next_sequence
                and header.producer_epoch == entry.producer_epoch
                and not header.attributes & TRANSACTIONAL
                and entry.current_txn_first_offset < 0
            ):
                return None
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        _check_data(entry, header, origin is AppendOrigin.CLIENT, transaction_version)
        return None

    # After the write

    def apply_data(self, header: BatchHeader, base_offset: int, seen_ms: int) -> None:
        """A data batch was written at `base_offset`."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif entry.producer_epoch != header.producer_epoch:
            entry.change_epoch(header.producer_epoch)
        entry.seen_ms = seen_ms
        delta = header.last_offset_delta
        entry.add_batch(BatchMetadata(header.last_sequence, base_offset + delta, delta, header.max_timestamp))
        if header.attributes & TRANSACTIONAL and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def apply_marker(
        self, header: BatchHeader, marker: EndMarker, offset: int, seen_ms: int
    ) -> CompletedTransaction | None:
        """A marker was written at `offset`. The transaction that it completed, if there was data in one."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        entry.change_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.seen_ms = seen_ms
        first_offset = entry.current_txn_first_offset
        if first_offset < 0:
            return None
        entry.current_txn_first_offset = -1
        self._ongoing.pop(first_offset, None)
        unstable = self.first_unstable_offset
        stable = unstable if unstable is not None else offset + 1
        return CompletedTransaction(producer_id, first_offset, offset, not marker.commit, stable)

    def replay(self, header: BatchHeader, marker: EndMarker | None, seen_ms: int) -> CompletedTransaction | None:
        """Apply a batch that is in the log already. An emptied control batch is what compaction left of a marker."""
        if header.producer_id < 0:
            return None
        if header.attributes & CONTROL:
            return self.apply_marker(header, marker, header.base_offset, seen_ms) if marker is not None else None
        self.apply_data(header, header.base_offset, seen_ms)
        return None

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that were silent for too long, unless a transaction of theirs is open."""
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.current_txn_first_offset < 0 and now_ms - entry.seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]

    def clear(self) -> None:
        self.entries.clear()
        self._ongoing.clear()

    # Snapshots

    def write_snapshot(self, path: str) -> None:
        write_file(path, snapshot_bytes(self.entries.values()))

    def load_snapshot(self, path: str, seen_ms: int) -> None:
        """Replace the state by a snapshot's. Raises CorruptSnapshot and then leaves the state empty."""
        self.clear()
        with open(path, "rb", buffering=0) as file:
            entries = parse_snapshot(file.read())
        for entry in entries:
            entry.seen_ms = seen_ms
            self.entries[entry.producer_id] = entry
        ongoing = [entry for entry in entries if entry.current_txn_first_offset >= 0]
        for entry in sorted(ongoing, key=lambda each: each.current_txn_first_offset):
            self._ongoing[entry.current_txn_first_offset] = entry.producer_id


def _check_data(entry: ProducerEntry | None, header: BatchHeader, client: bool, transaction_version: int) -> None:
    if entry is not None and header.producer_epoch < entry.producer_epoch:
        raise _stale_epoch(entry, header)
    first = header.base_sequence
    transactions_v2 = client and transaction_version >= 2 and header.attributes & TRANSACTIONAL
    if transactions_v2 and first != 0 and (entry is None or not entry.batches):
        # With a bumped epoch for every transaction the first write always starts at 0 (KIP-890 part 2).
        raise OutOfOrderSequenceNumber(
            f"Invalid sequence number for producer {header.producer_id}: {first} (incoming seq. number). Expected "
            "sequence 0 for transactions v2 idempotent producer with no existing state."
        )
    if entry is None:
        return
    if client:
        _check_sequence(entry, header)
    if entry.current_txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
        raise InvalidTxnState(f"Expected transactional write from producer {header.producer_id}")


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    first = header.base_sequence
    if header.producer_epoch != entry.producer_epoch:
        if first != 0 and entry.producer_epoch != _NO_EPOCH:
            raise OutOfOrderSequenceNumber(
                f"Invalid sequence number for new epoch of producer {header.producer_id}: {header.producer_epoch} "
                f"(request epoch), {first} (seq. number), {entry.producer_epoch} (current producer epoch)"
            )
    elif first != entry.next_sequence:
        raise OutOfOrderSequenceNumber(
            f"Out of order sequence number for producer {header.producer_id}: {first} (incoming seq. number), "
            f"{entry.last_sequence} (current end sequence number)"
        )


def _check_marker(entry: ProducerEntry, header: BatchHeader, marker: EndMarker, transaction_version: int) -> None:
    current, epoch = entry.producer_epoch, header.producer_epoch
    if transaction_version >= 2:
        # The coordinator bumps the epoch before it writes markers, so an equal epoch is a marker written twice. That
        # is harmless once the transaction is closed, and otherwise would end the next transaction (KIP-890).
        repeated = epoch == current and (entry.current_txn_first_offset < 0 or epoch == _EPOCH_MAX)
        if epoch <= current and not repeated:
            raise _stale_epoch(entry, header)
    elif epoch < current:
        raise _stale_epoch(entry, header)
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise TransactionCoordinatorFenced(
            f"Invalid coordinator epoch for producerId {entry.producer_id}: {marker.coordinator_epoch} (zombie), "
            f"{entry.coordinator_epoch} (current)"
        )


def _stale_epoch(entry: ProducerEntry, header: BatchHeader) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"Epoch of producer {entry.producer_id} is {header.producer_epoch}, which is smaller than the last seen epoch "
        f"{entry.producer_epoch}"
    )


def snapshot_bytes(entries: Iterable[ProducerEntry]) -> bytes:
    body = bytearray(_SNAPSHOT_COUNT.size)
    earlier = bytearray(_EARLIER_HEAD.pack(_EARLIER_TAG, _EARLIER_VERSION))
    count = 0
    has_earlier = False
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        before = entry.batches[:-1]
        has_earlier = has_earlier or bool(before)
        earlier += _EARLIER_COUNT.pack(len(before))
        for batch in before:
            earlier += _EARLIER_BATCH.pack(*batch)
        count += 1
    _SNAPSHOT_COUNT.pack_into(body, 0, count)
    if has_earlier:
        body += earlier
    return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(bytes(body))) + body


def parse_snapshot(data: bytes) -> list[ProducerEntry]:
    try:
        version, crc = _SNAPSHOT_HEAD.unpack_from(data)
        (count,) = _SNAPSHOT_COUNT.unpack_from(data, _SNAPSHOT_HEAD.size)
    except struct.error as error:
        raise CorruptSnapshot("too short") from error
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    start = _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size
    end = start + count * _SNAPSHOT_ENTRY.size
    if crc != crc32c(data[_SNAPSHOT_HEAD.size :]) or not start <= end <= len(data):
        raise CorruptSnapshot("checksum does not match")
    entries = []
    earlier = _parse_earlier(data[end:], count)
    for values, before in zip(_SNAPSHOT_ENTRY.iter_unpack(data[start:end]), earlier, strict=True):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = values
        entry = ProducerEntry(producer_id, epoch)
        for batch in before:
            entry.add_batch(batch)
        if last_offset >= 0:
            entry.add_batch(BatchMetadata(last_sequence, last_offset, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.current_txn_first_offset = txn_first_offset
        entries.append(entry)
    return entries


def _parse_earlier(data: bytes, count: int) -> list[list[BatchMetadata]]:
    """Each producer's batches before its last one, oldest first; none where the writer did not know of them."""
    none: list[list[BatchMetadata]] = [[] for _ in range(count)]
    if not data.startswith(_EARLIER_TAG):
        return none
    try:
        _, version = _EARLIER_HEAD.unpack_from(data)
        if version != _EARLIER_VERSION:
            return none  # of a later release: Kafka's entries are enough to go on
        position = _EARLIER_HEAD.size
        found = []
        for _ in range(count):
            (number,) = _EARLIER_COUNT.unpack_from(data, position)
            position += _EARLIER_COUNT.size
            end = position + number * _EARLIER_BATCH.size
            if not 0 <= number < BATCHES_REMEMBERED or end > len(data):
                raise CorruptSnapshot("the earlier batches do not fit")
            found.append([BatchMetadata(*values) for values in _EARLIER_BATCH.iter_unpack(data[position:end])])
            position = end
    except struct.error as error:
        raise CorruptSnapshot("the earlier batches are cut short") from error
    return found
