"""The 61-byte header of a record batch, read and patched in place.

A batch is what a producer sends, what a segment file stores and what a consumer fetches: the same bytes all along. The
header carries everything a broker needs to know (sizes, offsets, timestamps, the producer's identity), so the records
behind it, which may be one compressed blob, are never decoded on the way through.

=======  ====  ==========================================================================================
offset   size  field
=======  ====  ==========================================================================================
0        8     base offset; a producer sends 0, the broker writes the one it assigned
8        4     batch length: bytes that follow this field
12       4     partition leader epoch
16       1     magic (2)
17       4     CRC-32C of everything from offset 21 to the end
21       2     attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
23       4     last offset delta
27       8     base timestamp (the delete horizon when bit 6 is set)
35       8     max timestamp
43       8     producer id, -1 for none
51       2     producer epoch
53       4     base sequence
57       4     number of records
=======  ====  ==========================================================================================

Base offset and leader epoch lie outside the CRC on purpose: assigning an offset costs no checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

from penstock.records.checksum import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12
MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

CRC_AT = 17
ATTRIBUTES_AT = 21
_MAGIC_AT = 16
_SMALLEST_LENGTH = HEADER_SIZE - LOG_OVERHEAD
# Magic 0 and 1 messages may be shorter than this header, so their magic is looked at before there are 61 bytes.
_SMALLEST_OLD_BATCH = LOG_OVERHEAD + 14

HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack_header = HEADER.unpack_from
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_pack_int64 = _INT64.pack_into
_pack_int32 = _INT32.pack_into
_unpack_uint32 = _UINT32.unpack_from

_MAX_SEQUENCE = 2**31 - 1


class CorruptBatch(Exception):
    """The bytes are not a whole, well-formed record batch."""


class UnsupportedMagic(CorruptBatch):
    """A message of a format from before Kafka 0.11 (magic 0 or 1), which Kafka 4 no longer takes either."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record batch has magic {magic}; only magic 2 is supported")
        self.magic = magic


class BatchHeader:
    """The header's fields under Kafka's names. One is built per batch produced, so it is a plain class with slots."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "records_count",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.records_count = records_count

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The codec's number; 5 to 7 exist in the bit field but name no codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; the numbers wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BatchHeader({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


def parse_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`. Says nothing about whether the whole batch lies in `buf`, nor about its CRC."""
    try:
        header = BatchHeader(*_unpack_header(buf, pos))
    except struct.error:
        raise _too_short(buf, pos) from None
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic)
    if header.batch_length < _SMALLEST_LENGTH:
        raise CorruptBatch(f"batch length {header.batch_length} is smaller than the rest of a batch header")
    return header


def iter_headers(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch. One cut off at the end, as a fetch may return it, is left out."""
    pos = 0
    end = len(buf)
    while end - pos >= LOG_OVERHEAD:
        size = int.from_bytes(buf[pos + 8 : pos + 12], "big", signed=True) + LOG_OVERHEAD
        if size > end - pos:
            return
        header = parse_header(buf, pos)
        yield pos, header
        pos += size


def crc_is_valid(buf: Buffer, pos: int, size: int) -> bool:
    """Whether the batch of `size` bytes at `pos` lies in the buffer whole and its CRC-32C matches."""
    if size < HEADER_SIZE or len(buf) - pos < size:
        return False
    stored: int = _unpack_uint32(buf, pos + CRC_AT)[0]
    return stored == crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : pos + size])


def patch_append(buf: WritableBuffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write what the leader assigns on append. Both fields lie outside the CRC."""
    _pack_int64(buf, pos, base_offset)
    _pack_int32(buf, pos + 12, leader_epoch)


def patch_max_timestamp(buf: WritableBuffer, pos: int, max_timestamp: int, log_append_time: bool) -> None:
    """Write the max timestamp and its type, then the CRC that they change."""
    attributes: int = _INT16.unpack_from(buf, pos + ATTRIBUTES_AT)[0]
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _INT16.pack_into(buf, pos + ATTRIBUTES_AT, attributes)
    _pack_int64(buf, pos + 35, max_timestamp)
    write_crc(buf, pos, _INT32.unpack_from(buf, pos + 8)[0] + LOG_OVERHEAD)


def write_crc(buf: WritableBuffer, pos: int, size: int) -> None:
    """Compute and store the CRC-32C of the batch of `size` bytes at `pos`."""
    _UINT32.pack_into(buf, pos + CRC_AT, crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : pos + size]))


def _too_short(buf: Buffer, pos: int) -> CorruptBatch:
    if len(buf) - pos >= _SMALLEST_OLD_BATCH and buf[pos + _MAGIC_AT] in (0, 1):
        return UnsupportedMagic(buf[pos + _MAGIC_AT])
    return CorruptBatch(f"{max(len(buf) - pos, 0)} bytes are too few for a batch header of {HEADER_SIZE}")


def _wrong_magic(magic: int) -> CorruptBatch:
    return UnsupportedMagic(magic) if magic in (0, 1) else CorruptBatch(f"invalid magic {magic} in a record batch")
