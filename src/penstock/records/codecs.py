"""The five codecs of a record batch, with decompression that cannot be made to eat the machine's memory.

A batch of a kilobyte can legally claim to hold gigabytes. So no decoder here is let loose on an output that grows as it
likes: the frame is walked first (block headers are a few bytes each, so that is cheap) to learn an upper bound of its
content, a buffer of that size or of the caller's limit is allocated, whichever is smaller, and the decoder writes into
it. Gzip has no block sizes to walk, so there zlib itself is told where to stop.

What is written is what Kafka's Java client writes, because the Java client is the strictest reader: LZ4 frames of
independent 64 KiB blocks (it refuses linked ones) and snappy in the framing of the xerial library (it would read raw
snappy, too, but other clients expect the framing from a Kafka broker). What is read is more liberal: any valid LZ4 or
zstd frame or sequence of them, gzip of several members, snappy raw or framed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

import cramjam

from penstock.records.batch import Buffer, CorruptBatch

# Larger than any batch a broker takes with default settings, small enough to hold a few of them in memory at once.
DEFAULT_LIMIT = 128 * 1024 * 1024

GZIP_DEFAULT_LEVEL = -1
# Kafka's name for "the fast compressor"; only other levels select LZ4's slow, denser one.
LZ4_DEFAULT_LEVEL = 9
ZSTD_DEFAULT_LEVEL = 3

_GZIP_WINDOW_BITS = 31
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_SIZE = 32 * 1024
# The densest element of snappy copies 64 bytes and takes 3.
_SNAPPY_MAX_RATIO = 22
_LZ4_MAGIC = 0x184D2204
# Version 1, independent blocks, no checksums (the batch has its own); blocks of at most 64 KiB; header checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_UNCOMPRESSED = 0x80000000
_LZ4_MAX_RATIO = 255
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_MAX_BLOCK = 128 * 1024
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2
_SKIPPABLE_MAGIC = 0x184D2A50

_Decompressor: TypeAlias = Callable[[Buffer, int], bytes | bytearray]


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionLimit(CorruptBatch):
    """The compressed data would expand past the limit that the caller set."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"compressed records expand to more than {limit} bytes")
        self.limit = limit


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress as Kafka's Java client does. No level means Kafka's default one; snappy has none."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, GZIP_DEFAULT_LEVEL if level is None else level, _GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, LZ4_DEFAULT_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_DEFAULT_LEVEL if level is None else level))
    raise ValueError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, limit: int = DEFAULT_LIMIT) -> bytes | bytearray:
    """Decompress to at most `limit` bytes, or raise `DecompressionLimit`; broken input raises `CorruptBatch`."""
    if codec == Codec.NONE:
        return bytes(data)
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise CorruptBatch(f"attributes name codec {codec}, which does not exist")
    return decompressor(data, limit)


def _compress_xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        raw = view[start : start + _LZ4_BLOCK_SIZE]
        block = _lz4_block(raw, level)
        if len(block) < len(raw):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(raw) | _LZ4_UNCOMPRESSED).to_bytes(4, "little"), bytes(raw))
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _lz4_block(raw: memoryview, level: int) -> bytes:
    if level == LZ4_DEFAULT_LEVEL:
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    # The block functions know no levels. A frame of at most 64 KiB holds one block, which depends on no other.
    frame = bytes(cramjam.lz4.compress(raw, level=level))
    size = int.from_bytes(frame[7:11], "little")
    return bytes(raw) if size & _LZ4_UNCOMPRESSED else frame[11 : 11 + size]


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    rest: Buffer = data
    total = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            # One byte more than allowed tells "exactly the limit" from "past it".
            part = member.decompress(rest, limit - total + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        total += len(part)
        if total > limit:
            raise DecompressionLimit(limit)
        if not member.eof:
            raise CorruptBatch("gzip: the data ends before the stream does")
        parts.append(part)
        rest = member.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytearray:
    view = memoryview(data)
    blocks = _xerial_blocks(view) if view[:8] == _XERIAL_MAGIC else [(view, _snappy_length(view))]
    total = sum(length for _, length in blocks)
    if total > limit:
        raise DecompressionLimit(limit)
    output = bytearray(total)
    room = memoryview(output)
    at = 0
    for block, length in blocks:
        try:
            written = cramjam.snappy.decompress_raw_into(block, room[at : at + length])
        except cramjam.DecompressionError as error:
            raise CorruptBatch(f"snappy: {error}") from None
        if written != length:
            raise CorruptBatch("snappy: a block is shorter than it says")
        at += length
    return output


def _xerial_blocks(view: memoryview) -> list[tuple[memoryview, int]]:
    """The (compressed block, length of its content) pairs; a stream header may come again where streams were joined."""
    blocks = []
    end = len(view)
    at = 0
    while at < end:
        if view[at : at + 8] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(view[at : at + 4], "big")
        block = view[at + 4 : at + 4 + size]
        if len(block) != size or not size:
            raise CorruptBatch("snappy: a block reaches past the end of the data")
        blocks.append((block, _snappy_length(block)))
        at += 4 + size
    if at != end:
        raise CorruptBatch("snappy: the stream header is cut off")
    return blocks


def _snappy_length(block: memoryview) -> int:
    """The length that the block declares, unless no snappy block of its size could hold as much."""
    try:
        length: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None
    if length > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptBatch(f"snappy: a block of {len(block)} bytes cannot hold {length}")
    return length


def _decompress_lz4(data: Buffer, limit: int) -> bytearray:
    return _decompress_into(cramjam.lz4.decompress_into, data, _lz4_bound(memoryview(data), limit), limit)


def _decompress_zstd(data: Buffer, limit: int) -> bytearray:
    return _decompress_into(cramjam.zstd.decompress_into, data, _zstd_bound(memoryview(data), limit), limit)


def _decompress_into(decoder: Callable[[Buffer, bytearray], int], data: Buffer, bound: int, limit: int) -> bytearray:
    output = bytearray(min(bound, limit))
    try:
        written = decoder(data, output)
    except cramjam.DecompressionError as error:
        # The bound is an upper one, so running out of room below it is the decoder's word that the limit was passed.
        if bound > limit and "whole buffer" in str(error):
            raise DecompressionLimit(limit) from None
        raise CorruptBatch(f"cannot decompress: {error}") from None
    if written < len(output):
        del output[written:]
    return output


def _lz4_bound(view: memoryview, limit: int) -> int:
    """Upper bound of what the LZ4 frames hold, learnt from their block headers."""
    bound = 0
    at = 0
    end = len(view)
    while at < end:
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & ~0xF == _SKIPPABLE_MAGIC:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        if magic != _LZ4_MAGIC or end - at < len(_LZ4_HEADER):
            raise CorruptBatch("lz4: this is no LZ4 frame")
        flags = view[at + 4]
        block_max = 1 << (8 + 2 * (view[at + 5] >> 4 & 0x7))
        checksum = 4 if flags & 0x10 else 0
        at += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while size := int.from_bytes(view[at : at + 4], "little"):
            length = size & ~_LZ4_UNCOMPRESSED
            bound += length if size & _LZ4_UNCOMPRESSED else min(block_max, length * _LZ4_MAX_RATIO)
            at += 4 + length + checksum
            if bound > limit:
                return bound
        at += 4 + (4 if flags & 0x04 else 0)
    if at != end or not end:
        raise CorruptBatch("lz4: the data ends before the frame does")
    return bound


def _zstd_bound(view: memoryview, limit: int) -> int:
    """Upper bound of what the zstd frames hold, learnt from their frame and block headers."""
    bound = 0
    at = 0
    end = len(view)
    while at < end:
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & ~0xF == _SKIPPABLE_MAGIC:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        if magic != _ZSTD_MAGIC or end - at < 6:
            raise CorruptBatch("zstd: this is no zstd frame")
        descriptor = view[at + 4]
        single_segment = descriptor & 0x20
        at += 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 0x03]
        at += (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
        last = 0
        while not last:
            block = int.from_bytes(view[at : at + 3], "little")
            if end - at < 3:
                raise CorruptBatch("zstd: the data ends before the frame does")
            last, kind, length = block & 1, block >> 1 & 3, block >> 3
            bound += _ZSTD_MAX_BLOCK if kind == _ZSTD_COMPRESSED else length
            at += 3 + (1 if kind == _ZSTD_RLE else length)
            if bound > limit:
                return bound
        at += 4 if descriptor & 0x04 else 0
    if at != end or not end:
        raise CorruptBatch("zstd: the data ends before the frame does")
    return bound


_DECOMPRESSORS: dict[int, _Decompressor] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
