"""Kafka's own `kafka-dump-log` reads the files, and finds nothing to complain about."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from tests.log.cleaner.clean_helpers import clean, keyed
from tests.log.log_helpers import NOW, append, end_transaction, open_log, plain, produced

pytestmark = pytest.mark.java

JARS = Path(os.environ.get("PENSTOCK_KAFKA_JARS", Path.home() / ".cache/penstock/kafka-4.3.1"))


def dump(*paths: Path, deep: bool = True) -> str:
    command = ["java", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log"] if deep else []
    command += ["--files", ",".join(map(str, paths))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def complaints(output: str) -> list[str]:
    """What the tool finds wrong. Of gaps between offsets it speaks even where a segment merely does not start at 0."""
    words = ("isvalid: false", "mismatch", "invalid", "corrupt", "not found", "exception", "out of order")
    return [line for line in output.splitlines() if any(word in line.lower() for word in words)]


def gaps(output: str) -> list[str]:
    return [line for line in output.splitlines() if "is followed by" in line and "-1 is" not in line]


def test_every_file_of_a_log_is_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for n in range(200):
        append(log, plain(f"value {n}", "x" * 50, timestamp=NOW + n))
        append(log, build_batch([(NOW + n, b"key", b"v" * 100, [("h", b"1")])] * 3, codec=Codec.LZ4))
    for n in range(3):
        append(log, produced(n, transactional=True, timestamp=NOW + 500))
    end_transaction(log, False)
    append(log, produced(3, transactional=True, timestamp=NOW + 500))
    end_transaction(log, True)
    log.close()
    logs = sorted(log.folder.glob("*.log"))
    assert len(logs) > 2
    output = dump(*logs)
    assert complaints(output) == gaps(output) == []
    assert output.count("payload: value") == 200
    assert "endTxnMarker: ABORT" in output
    assert f"offset: {log.log_end_offset - 1} " in output
    indexes = dump(*sorted([*log.folder.glob("*.index"), *log.folder.glob("*.timeindex")]), deep=False)
    assert complaints(indexes) == []
    assert indexes.count("offset:") > 20
    transactions = dump(*log.folder.glob("*.txnindex"), deep=False)
    assert "producerId: 7" in transactions
    snapshots = dump(*log.folder.glob("*.snapshot"), deep=False)
    assert complaints(snapshots) == []
    assert "producerId: 7" in snapshots


def test_a_cleaned_log_is_readable(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=5000, index_interval_bytes=500, cleanup_policy="compact")
    log = open_log(tmp_path, config)
    for n in range(200):
        append(log, keyed((f"key {n % 60}", f"{n}"), (f"key {n % 7}", None if n % 2 else f"{n}"), codec=n % 5))
        if n % 20 == 0:
            batch = keyed(("x", "aborted"), producer_id=7, producer_epoch=0, base_sequence=n // 20, transactional=True)
            append(log, batch)
            end_transaction(log, n % 40 == 0)
    log.roll(NOW)
    cleaned = clean(log)
    clean(log, cleaned.end_offset, NOW + 1)
    log.close()
    output = dump(*sorted(log.folder.glob("*.log")))
    assert complaints(output) == []
    assert "isTransactional: true isControl: true deleteHorizonMs: OptionalLong[" in output
    assert "count: 0 " in output
    assert output.count("payload: 199") == 1
    indexes = dump(*sorted([*log.folder.glob("*.index"), *log.folder.glob("*.timeindex")]), deep=False)
    assert complaints(indexes) == []


def test_a_damaged_file_would_be_noticed(tmp_path: Path) -> None:
    """The two tests above prove something only if the tool does complain."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=100))
    for n in range(20):
        append(log, plain(f"value {n}"))
    log.close()
    path = log.folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert complaints(dump(path, deep=False))
    index = log.folder / "00000000000000000000.index"
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    assert complaints(dump(index, deep=False))
