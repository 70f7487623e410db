"""Whatever a producer sends as a batch, reading it gives records or a named error, within the memory it may take."""

from __future__ import annotations

import random

import pytest

from penstock.records.batch import HEADER_SIZE, CorruptBatch, iter_headers, parse_header, write_crc
from penstock.records.builder import NewRecord, build_batch
from penstock.records.codecs import Codec, compress, decompress
from penstock.records.cutting import cut_batch
from penstock.records.record import iter_batches_records, iter_records
from penstock.records.validation import ProduceRules, sole_batch, validate_produced
from penstock.wire.errors import KafkaError
from tests.fuzz.fuzzing import DEFAULT_SECONDS, LONG_SECONDS, fuzz, mutated

LIMIT = 1 << 20
RULES = [
    ProduceRules(),
    ProduceRules(compacted=True),
    ProduceRules(log_append_time=True),
    ProduceRules(codec=Codec.LZ4),
    ProduceRules(codec=Codec.NONE, timestamp_after_max_ms=0),
]


def random_batch(source: random.Random) -> bytearray:
    records: list[NewRecord] = [
        (
            1_700_000_000_000 + source.randrange(1000),
            source.choice([None, b"", b"key", source.randbytes(40)]),
            source.choice([None, b"", b"v" * 300, source.randbytes(source.randrange(200))]),
            source.choice([[], [("h", b"x")], [("a", None), ("ü", b"")]]),
        )
        for _ in range(source.randrange(1, 30))
    ]
    return build_batch(records, codec=source.choice(list(Codec)), producer_id=source.choice([-1, 7]), base_sequence=0)


def fuzz_a_batch(source: random.Random) -> None:
    original = random_batch(source)
    for _ in range(20):
        batch = mutated(source, original)
        if len(batch) > HEADER_SIZE and source.random() < 0.7:
            # A right length and checksum let the damage through to the code behind those checks.
            batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
            write_crc(batch, 0, len(batch))
        for read in (read_headers, read_records, read_all, cut, validate):
            try:
                read(source, bytearray(batch))
            except (CorruptBatch, KafkaError):
                pass


def read_headers(_: random.Random, batch: bytearray) -> None:
    for position, header in iter_headers(batch):
        assert position + header.size <= len(batch)


def read_records(_: random.Random, batch: bytearray) -> None:
    assert sum(1 for _ in iter_records(batch, limit=LIMIT)) == parse_header(batch).records_count


def read_all(_: random.Random, batch: bytearray) -> None:
    list(iter_batches_records(batch, limit=LIMIT))


def cut(source: random.Random, batch: bytearray) -> None:
    header = parse_header(batch)
    first = header.base_offset + source.randrange(3)
    cut_batch(batch, 0, first, first + source.randrange(5), limit=LIMIT)


def validate(source: random.Random, batch: bytearray) -> None:
    header = sole_batch(batch, 9)
    del batch[header.size :]
    validate_produced(batch, header, source.choice(RULES), now_ms=1_700_000_000_000, topic="t", partition=0)


def fuzz_a_codec(source: random.Random) -> None:
    codec = source.choice([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    plain = source.choice([b"", b"a" * 5000, source.randbytes(3000), bytes(200_000)])
    original = compress(codec, plain)
    assert bytes(decompress(codec, original, LIMIT)) == plain
    for _ in range(20):
        try:
            assert len(decompress(codec, mutated(source, original), LIMIT)) <= LIMIT
        except CorruptBatch:
            pass


def test_batches_survive_damage() -> None:
    fuzz(DEFAULT_SECONDS, fuzz_a_batch, fuzz_a_codec)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 120)
def test_batches_survive_damage_for_long() -> None:
    fuzz(LONG_SECONDS, fuzz_a_batch, fuzz_a_codec)
