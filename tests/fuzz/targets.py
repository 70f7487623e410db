"""What is fuzzed with coverage: functions that take any bytes, and make sense of them or refuse them by name.

Whatever else they raise is a bug. `tests.fuzz.learn` lets a fuzzer look for it; the inputs that it has found worth
keeping are in `tests/fuzz/corpus`, and `test_corpus.py` tries them in every run of the tests.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock.broker import http
from penstock.client.types import ConsumerRecord
from penstock.console import decoders, filters
from penstock.console.decoders import avro
from penstock.console.names import MalformedName, decode_name, encode_name
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.records.batch import CorruptBatch, iter_headers
from penstock.records.codecs import decompress
from penstock.records.record import iter_batches_records
from penstock.records.validation import ProduceRules, sole_batch, validate_produced
from penstock.wire.api import API_TABLE
from penstock.wire.codec import MalformedMessage, UnsupportedField, decode, encode
from penstock.wire.errors import KafkaError
from penstock.wire.frames import parse_request_header
from penstock.wire.otlp import MalformedMetrics, decode_metrics

LIMIT = 1 << 20
TOPIC_ID = bytes(range(16))
_FILES = (
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000003.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
_APIS = sorted(API_TABLE)
_TOPICS = ("t", "__consumer_offsets", "__transaction_state", "__share_group_state")


def request(data: bytes) -> None:
    """The first byte picks an API, the second a version, the third the direction."""
    if len(data) < 3:
        return
    info = API_TABLE[_APIS[data[0] % len(_APIS)]]
    message = info.response if data[2] & 1 else info.request
    versions = message.SCHEMA.versions
    version = versions.low + data[1] % (versions.high - versions.low + 1)
    with suppress(MalformedMessage, UnsupportedField):
        again = encode(decode(message, data[3:], version), version)
        assert encode(decode(message, again, version), version) == again


def header(data: bytes) -> None:
    with suppress(MalformedMessage):
        parse_request_header(memoryview(data))


def batch(data: bytes) -> None:
    for read in (_read_headers, _read_records, _validate):
        with suppress(CorruptBatch, KafkaError):
            read(bytearray(data))


def _read_headers(data: bytearray) -> None:
    for position, found in iter_headers(data):
        assert position + found.size <= len(data)


def _read_records(data: bytearray) -> None:
    for _ in iter_batches_records(data, limit=LIMIT):
        pass


def _validate(data: bytearray) -> None:
    found = sole_batch(data, 9)
    del data[found.size :]
    validate_produced(data, found, ProduceRules(), now_ms=1_700_000_000_000, topic="t", partition=0)


def compressed(data: bytes) -> None:
    if data:
        with suppress(CorruptBatch):
            assert len(decompress(data[0] % 5, data[1:], LIMIT)) <= LIMIT


def folder(data: bytes) -> None:
    """The first byte picks the file of a partition's folder whose contents the rest is. It opens, or says why not."""
    if not data:
        return
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        (place / "t-0").mkdir()
        (place / "t-0" / _FILES[data[0] % len(_FILES)]).write_bytes(data[1:])
        with suppress(StorageError):
            log = PartitionLog.open(place, "t", 0, TOPIC_ID, LogConfig(), 1_700_000_000_000, recovery_point=0)
            log.read(log.log_start_offset, LIMIT).read()
            log.close()
    finally:
        shutil.rmtree(place)


def telemetry(data: bytes) -> None:
    with suppress(MalformedMetrics):
        decode_metrics(data, 100)


def search(data: bytes) -> None:
    """The text up to a zero is an expression of the console's search, the rest a record."""
    text, _, value = data.partition(b"\0")
    record = ConsumerRecord("t", 0, 0, 0, 0, b"key", value, (("name", b"held"),))
    with suppress(filters.FilterError, UnicodeDecodeError):
        found = filters.parse(text.decode())
        if found.passes(record):
            assert found.screen is None or found.screen(b"".join((b"key", value, b"name", b"held")))


def decoder(data: bytes) -> None:
    """The first byte picks how the console shows a record, the second the topic, the third says how long the key is."""
    if len(data) < 3:
        return
    wanted, topic = decoders.FORMATS[data[0] % len(decoders.FORMATS)], _TOPICS[data[1] % len(_TOPICS)]
    key, value = data[3 : 3 + data[2]], data[3 + data[2] :]
    for shown in decoders.decode_record(topic, key, value, wanted):
        (shown.text or "").encode()


def schema(data: bytes) -> None:
    """The text up to a zero is an Avro schema, the rest a value that may have been written by it."""
    text, _, value = data.partition(b"\0")
    with suppress(avro.MalformedSchema, UnicodeDecodeError):
        (decoders.decode(value, "avro", avro.parse_schema(text.decode())).text or "").encode()


def name(data: bytes) -> None:
    """A segment of an address of the console."""
    with suppress(MalformedName, UnicodeDecodeError):
        segment = data.decode()
        assert encode_name(decode_name(segment)) == segment


def monitoring(data: bytes) -> None:
    """The head of a request to the monitoring endpoint."""
    found = http.parse(data)
    if isinstance(found, http.Request):
        http.is_of_this_machine(found.host)
        http.prefers_openmetrics(found.accept)
    else:
        assert found.status >= 400


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (request, header, batch, compressed, folder, telemetry, search, decoder, schema, name, monitoring)
}


def quiet() -> None:
    """Recovery warns of what it finds, which is everything here."""
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
