from __future__ import annotations

import pytest

from penstock.client import Consumer, Producer, TopicPartition
from penstock.client.batches import RecordBatch
from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec

ROWS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (1000, b"k0", b"v0", [("h", b"x")]),
    (2000, None, b"v1", []),
    (3000, b"k2", None, [("h", None), ("h", b"y")]),
]


def stored(codec: Codec = Codec.NONE) -> bytes:
    return bytes(build_batch(ROWS, base_offset=10, codec=codec))


def fetched(first: int = 0, codec: Codec = Codec.NONE) -> RecordBatch:
    """The batch as a fetch brings it, in the middle of other bytes, for a reader that stands at `first`."""
    data = memoryview(b"before" + stored(codec) + b"after")
    return RecordBatch("orders", 3, data, 6, parse_header(data, 6), first)


@pytest.mark.parametrize("codec", list(Codec))
def test_its_columns_are_its_records(codec: Codec) -> None:
    batch = fetched(codec=codec)
    assert batch.offsets == [10, 11, 12]
    assert batch.timestamps == [1000, 2000, 3000]
    assert batch.keys == [b"k0", None, b"k2"]
    assert batch.values == [b"v0", b"v1", None]
    assert batch.headers == [(("h", b"x"),), (), (("h", None), ("h", b"y"))]
    assert [(r.topic, r.partition, r.offset, r.value) for r in batch] == [
        ("orders", 3, 10, b"v0"),
        ("orders", 3, 11, b"v1"),
        ("orders", 3, 12, None),
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_values_alone_are_read_without_making_records_and_are_the_same(codec: Codec) -> None:
    batch = fetched(codec=codec)
    assert batch.values == [b"v0", b"v1", None]
    assert "records" not in vars(batch)
    assert [record.value for record in batch] == batch.values


def test_counting_and_storing_decode_nothing() -> None:
    batch = fetched()
    assert len(batch) == 3
    assert bytes(batch.raw) == stored()
    assert batch.size == len(batch.raw)
    assert (batch.base_offset, batch.next_offset) == (10, 13)
    assert batch.topic_partition == TopicPartition("orders", 3)
    assert repr(batch) == f"RecordBatch(orders-3, offsets 10..12, {batch.size} bytes)"
    assert "records" not in vars(batch)


def test_for_a_reader_that_stands_in_its_middle_it_begins_there() -> None:
    batch = fetched(first=11)
    assert batch.values == [b"v1", None]
    assert (len(batch), batch.base_offset, batch.offsets) == (2, 11, [11, 12])
    assert batch.keys == [None, b"k2"]
    assert len(bytes(batch.raw)) == batch.size


def test_arrow_has_the_same_columns_from_the_reader_on() -> None:
    pytest.importorskip("pyarrow")
    batch = fetched(first=11)
    table = batch.to_arrow()
    assert table.column("offset").to_pylist() == batch.offsets
    assert table.column("key").to_pylist() == batch.keys
    assert table.column("value").to_pylist() == batch.values


async def test_a_consumer_hands_out_what_it_fetched_as_batches(bootstrap: str, topic: str, producer: Producer) -> None:
    await producer.send_batch(topic, [b"%d" % n for n in range(1000)], keys=[b"k"] * 1000, partition=0)
    await producer.flush()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 10)
        (batch,) = await consumer.poll_batches(5000)
        assert len(batch) == 990
        assert batch.offsets == list(range(10, 1000))
        assert batch.values[:2] == [b"10", b"11"]
        assert set(batch.keys) == {b"k"}
        assert batch.headers[0] == ()
        assert [record.offset for record in batch][-1] == 999
        assert "offsets 10..999" in repr(batch)
        assert await consumer.position(TopicPartition(topic, 0)) == 1000


async def test_a_fetched_batch_becomes_arrow_on_request(bootstrap: str, topic: str, producer: Producer) -> None:
    pytest.importorskip("pyarrow")
    await producer.send_batch(topic, [b"%d" % n for n in range(100)], partition=0)
    await producer.flush()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        (batch,) = await consumer.poll_batches(5000)
        table = batch.to_arrow()
        assert table.num_rows == 100
        assert table.column("value").to_pylist()[:2] == [b"0", b"1"]
        assert table.column("offset").to_pylist() == list(range(100))
