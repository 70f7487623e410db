"""Each client does each job: create, produce in every form, read from every place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.records.batch import iter_headers
from penstock.records.codecs import Codec
from penstock.records.record import iter_batches_records
from penstock.testing import Broker
from tests.clients.adapters import ALL, Client, Kcat, Record

NO_KCAT = "kcat is not installed: apt-get install kcat"
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(params=ALL, ids=lambda make: str(make.name))
def client(request: pytest.FixtureRequest, broker: Broker) -> Client:
    make: Callable[[str], Client] = request.param
    if make is Kcat and not Kcat.is_installed():
        pytest.skip(NO_KCAT)
    return make(broker.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest, client: Client) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    client.create_topic(name)
    return name


def stored(broker: Broker, topic: str) -> bytes:
    """What the broker has on disk."""
    return b"".join(path.read_bytes() for path in sorted(broker.data.rglob(f"{topic}-0/*.log")))


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: str(codec.name))
def test_every_codec_there_and_back(client: Client, broker: Broker, topic: str, codec: Codec) -> None:
    records = [Record(b"value-%d-" % number + b"x" * 200, b"key") for number in range(50)]
    client.produce(topic, records, codec=codec.name.lower())
    assert client.read(topic, 50) == records
    # Stored as it was sent, not opened and packed again.
    assert {header.codec for _, header in iter_headers(stored(broker, topic))} == {codec}


def test_keys_values_and_headers_may_be_missing(client: Client, topic: str) -> None:
    records = [
        Record(b"value", b"key"),
        Record(b"value without key"),
        Record(None, b"key of a tombstone"),
        Record(b"with a header", b"k", (("trace", b"abc"),)),
        Record(b"with two of one name", b"k", (("h", b"1"), ("h", b"2"))),
        Record("ünïcödé".encode(), "schlüssel".encode(), (("größe", "groß".encode()),)),
    ]
    if client.name in ("confluent-kafka", "kcat"):  # the others refuse to send nothing at all
        records.append(Record(None))
    client.produce(topic, records)
    assert client.read(topic, len(records)) == records


def test_a_record_of_a_megabyte(client: Client, topic: str) -> None:
    records = [Record(b"a" * 1_000_000, b"big"), Record(b"small")]
    client.produce(topic, records)
    assert client.read(topic, 2) == records


def test_a_batch_of_ten_thousand(client: Client, broker: Broker, topic: str) -> None:
    records = [Record(b"number %05d" % number, b"k") for number in range(10_000)]
    client.produce(topic, records, one_batch=True)
    assert client.read(topic, 10_000) == records
    assert max(header.records_count for _, header in iter_headers(stored(broker, topic))) > 1000


def test_an_idempotent_producer(client: Client, broker: Broker, topic: str) -> None:
    records = [Record(b"%d" % number) for number in range(500)]
    client.produce(topic, records, idempotent=True)
    assert client.read(topic, 500) == records
    headers = [header for _, header in iter_headers(stored(broker, topic))]
    assert all(header.producer_id >= 0 for header in headers)
    sequence = 0
    for header in headers:
        assert header.base_sequence == sequence
        sequence += header.records_count


@pytest.fixture
def timed_topic(broker: Broker, client: Client, topic: str) -> str:
    """Twenty records, a second apart, in batches of different sizes; written by the one client that can say when."""
    records = [Record(b"%d" % number, timestamp_ms=START_MS + 1000 * number) for number in range(20)]
    writer = ALL[0](broker.bootstrap_servers)
    for first, last in ((0, 1), (1, 8), (8, 20)):
        writer.produce(topic, records[first:last])
    return topic


def test_reading_from_the_beginning(client: Client, timed_topic: str) -> None:
    found = client.read(timed_topic, 20)
    assert [record.value for record in found] == [b"%d" % number for number in range(20)]
    assert [record.timestamp_ms for record in found] == [START_MS + 1000 * number for number in range(20)]


@pytest.mark.parametrize("offset", [1, 5, 19])
def test_reading_from_an_offset_inside_a_batch(client: Client, timed_topic: str, offset: int) -> None:
    found = client.read(timed_topic, 20 - offset, offset=offset)
    assert [record.value for record in found] == [b"%d" % number for number in range(offset, 20)]


@pytest.mark.parametrize(("time_ms", "first"), [(0, 0), (5000, 5), (5001, 6), (18_999, 19)])
def test_reading_from_a_time(client: Client, timed_topic: str, time_ms: int, first: int) -> None:
    found = client.read(timed_topic, 20 - first, timestamp_ms=START_MS + time_ms)
    assert [record.value for record in found] == [b"%d" % number for number in range(first, 20)]


@pytest.mark.parametrize("reader", ALL, ids=lambda make: f"read by {make.name}")
@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_what_one_client_writes_another_reads(
    client: Client, reader: Callable[[str], Client], topic: str, codec: str, broker: Broker
) -> None:
    """The two codecs whose framing has more than one form in the wild."""
    if reader is Kcat and not Kcat.is_installed():
        pytest.skip(NO_KCAT)
    records = [Record(b"value-%d-" % number + b"x" * 100, b"key") for number in range(20)]
    client.produce(topic, records, codec=codec)
    assert reader(broker.bootstrap_servers).read(topic, 20) == records
    assert [record.value for record in iter_batches_records(stored(broker, topic))] == [r.value for r in records]
