"""Kafka's own `kafka-dump-log` reads the files, and finds nothing to complain about."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from tests.log.log_helpers import NOW, append, end_transaction, open_log, plain, produced

pytestmark = pytest.mark.java

JARS = Path(os.environ.get("PENSTOCK_KAFKA_JARS", Path.home() / ".cache/penstock/kafka-4.3.1"))


def dump(*paths: Path, deep: bool = True) -> str:
    command = ["java", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log"] if deep else []
    command += ["--files", ",".join(map(str, paths))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def complaints(output: str) -> list[str]:
    words = ("mismatch", "invalid", "corrupt", "Non-consecutive", "Following", "not found", "exception", "out of order")
    return [line for line in output.splitlines() if any(word.lower() in line.lower() for word in words)]


def test_every_file_of_a_log_is_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for n in range(200):
        append(log, plain(f"value {n}", "x" * 50, timestamp=NOW + n))
        append(log, build_batch([(NOW + n, b"key", b"v" * 100, [("h", b"1")])] * 3, codec=Codec.LZ4))
    for n in range(3):
        append(log, produced(n, transactional=True, timestamp=NOW + 500), verified_txn=True)
    end_transaction(log, False)
    append(log, produced(3, transactional=True, timestamp=NOW + 500), verified_txn=True)
    end_transaction(log, True)
    log.close()
    logs = sorted(log.folder.glob("*.log"))
    assert len(logs) > 2
    output = dump(*logs)
    assert complaints(output) == []
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
