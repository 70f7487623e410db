"""Every codec: what goes in comes out, other libraries agree, and nothing expands past the limit."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import CorruptBatch
from penstock.records.codecs import Codec, DecompressionLimit, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LEVELS = [
    (Codec.GZIP, 1),
    (Codec.GZIP, 9),
    (Codec.LZ4, 1),
    (Codec.LZ4, 17),
    (Codec.ZSTD, -5),
    (Codec.ZSTD, 1),
    (Codec.ZSTD, 22),
]
TEXT = b"".join(b'{"order": %d, "amount": %d}\n' % (i, i * i % 977) for i in range(20_000))


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=2000) | st.builds(lambda b, n: b * n, st.binary(max_size=50), st.integers(0, 5000)))
@settings(max_examples=60, deadline=None)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize(("codec", "level"), LEVELS)
def test_each_level_is_read_back(codec: Codec, level: int) -> None:
    assert decompress(codec, memoryview(compress(codec, TEXT, level)), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_incompressible_data_of_many_blocks_comes_back(codec: Codec) -> None:
    noise = bytes(hash((i, i * 7919)) & 0xFF for i in range(300_000))
    assert decompress(codec, compress(codec, noise), len(noise)) == noise


def test_lz4_is_written_as_the_java_client_demands_it() -> None:
    # Its reader refuses frames of linked blocks, which are the default of every LZ4 library.
    frame = compress(Codec.LZ4, TEXT)
    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert bytes(cramjam.lz4.decompress(frame)) == TEXT


def test_lz4_frames_with_linked_blocks_checksums_and_content_size_are_read() -> None:
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), len(TEXT)) == TEXT


def test_snappy_is_written_in_xerial_framing_of_32_kib_blocks() -> None:
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(framed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + first])) == TEXT[:32768]


def test_snappy_without_framing_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_joined_streams_are_read_as_one() -> None:
    for codec in COMPRESSING:
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two"), 100) == b"one two"


def test_gzip_is_rfc_1952() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert decompress(Codec.GZIP, gzip.compress(TEXT), len(TEXT)) == TEXT


def test_zstd_of_a_streaming_writer_without_content_size_is_read() -> None:
    compressor = cramjam.zstd.Compressor(level=3)
    for start in range(0, len(TEXT), 10_000):
        compressor.compress(TEXT[start : start + 10_000])
    assert decompress(Codec.ZSTD, bytes(compressor.finish()), len(TEXT)) == TEXT


def _bomb(codec: Codec, size: int) -> bytes:
    if codec is Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
        blocks = (len(block).to_bytes(4, "big") + block) * (size >> 20)
        return compress(Codec.SNAPPY, b"") + blocks
    return compress(codec, bytes(size))


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_stopped_before_it_takes_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = _bomb(codec, 64 << 20)
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(DecompressionLimit):
        decompress(codec, compressed, len(TEXT) - 1)


def test_a_snappy_block_that_lies_about_its_length_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x3f" + b"\x00" * 20, 1 << 30)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_input_is_a_corrupt_batch_and_nothing_worse(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        decompress(codec, damaged, 10_000)
    except CorruptBatch:
        pass


@pytest.mark.parametrize("codec", COMPRESSING)
@given(noise=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_a_corrupt_batch_and_nothing_worse(codec: Codec, noise: bytes) -> None:
    try:
        decompress(codec, noise, 10_000)
    except CorruptBatch:
        pass


@pytest.mark.parametrize("codec", COMPRESSING)
def test_input_cut_short_is_corrupt(codec: Codec) -> None:
    compressed = compress(codec, TEXT[:5000])
    for size in (1, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], 10_000)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codec_numbers_that_name_no_codec_are_corrupt(number: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(number, b"abc", 100)
    with pytest.raises(ValueError):
        compress(number, b"abc")


def test_zlib_data_without_gzip_header_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, zlib.compress(b"abc"), 100)
