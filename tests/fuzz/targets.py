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
from functools import cache
from pathlib import Path

from penstock.broker import http
from penstock.checks import HistoryError, check, read_history
from penstock.client.types import ConsumerRecord
from penstock.console import decoders, filters
from penstock.console.decoders import avro
from penstock.console.moments import MalformedMoment, milliseconds
from penstock.console.names import MalformedName, decode_name, encode_name
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.records.batch import CorruptBatch, iter_headers, parse_header
from penstock.records.builder import build_batch
from penstock.records.codecs import decompress
from penstock.records.record import iter_batches_records
from penstock.records.validation import ProduceRules, sole_batch, validate_produced
from penstock.security.failures import AuthenticationFailed
from penstock.security.scram import ScramMechanism, ScramServer, credential_of
from penstock.storage.checkpoint import BOOT_ID
from penstock.storage.local import LocalStorage
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
_CREDENTIAL = credential_of(ScramMechanism.SCRAM_SHA_256, "secret", b"salt", 4096)
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


def moment(data: bytes) -> None:
    """A time as people write it in the console."""
    with suppress(MalformedMoment, UnicodeDecodeError):
        milliseconds(data.decode(), 1_700_000_000.0)


def history(data: bytes) -> None:
    """What `penstock check` is given."""
    with suppress(HistoryError):
        check(read_history(data.split(b"\n")))


def scram(data: bytes) -> None:
    """The two messages of a client that logs in, with a zero between them."""
    first, _, final = data.partition(b"\0")
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, "server", lambda user: _CREDENTIAL)
    with suppress(AuthenticationFailed):
        server.receive(first)
        server.receive(final)
        assert not server.complete


def damage(data: bytes) -> None:
    """A data folder with records and transactions, whose files are changed: three bytes say where, one what it is.

    It opens, and all that its log has are batches, or it says why not.
    """
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        for name, whole in _data_folder().items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(whole)
        names = sorted(_data_folder())
        for at in range(0, len(data) - 3, 4):
            path = place / names[data[at] % len(names)]
            contents = bytearray(path.read_bytes())
            position = int.from_bytes(data[at + 1 : at + 3], "big")
            if position < len(contents):
                contents[position] = data[at + 3]
            else:
                contents += data[at + 3 : at + 4]
            path.write_bytes(contents)
        _open_all(place)
    finally:
        shutil.rmtree(place)


def _open_all(place: Path) -> None:
    """As after a power cut: what is behind the recovery point is checked, and so everything here is."""
    with suppress(StorageError):
        storage = LocalStorage(place, lambda: 1_700_000_000_000, lambda function: function(), lambda error: None)
        log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
        storage.opened()
        for _, found in iter_headers(log.read(log.log_start_offset, LIMIT).read()):
            assert found.base_offset <= log.log_end_offset
        storage.close()


@cache
def _data_folder() -> dict[str, bytes]:
    """What a killed broker has left: records of a producer, an aborted transaction, and a segment that has rolled."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder), lambda: 1_700_000_000_000, lambda each: each(), lambda error: None)
        storage.opened()
        storage.lost_writes_settled()
        log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
        for sequence in range(6):
            batch = build_batch(
                [(1_700_000_000_000, b"k", b"v", [])], producer_id=7, producer_epoch=0, base_sequence=sequence
            )
            log.append(batch, parse_header(batch), now_ms=1_700_000_000_000)
            if sequence == 2:
                log.roll(1_700_000_000_000)
        storage._checkpoints.save(list(storage.logs()))
        paths = [each for each in Path(folder).rglob("*") if each.is_file() and each.name != BOOT_ID]
        return {str(each.relative_to(folder)): each.read_bytes() for each in paths}


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
    for each in (
        request,
        header,
        batch,
        compressed,
        folder,
        damage,
        telemetry,
        search,
        decoder,
        schema,
        name,
        moment,
        monitoring,
        history,
        scram,
    )
}


def quiet() -> None:
    """Recovery warns of what it finds, which is everything here."""
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
