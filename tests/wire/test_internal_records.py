"""Records of internal topics, byte for byte as Apache Kafka's own classes write them (golden/RecordVectors.java)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.wire import messages as m
from penstock.wire import schema
from penstock.wire.codec import decode, encode
from tests.wire.samples import filled

VECTORS = [
    line.split() for line in (Path(__file__).parent / "golden" / "internal_records.txt").read_text().splitlines()
]


@pytest.mark.parametrize(
    ("name", "version", "vector"), VECTORS, ids=[f"{name} v{version}" for name, version, _ in VECTORS]
)
def test_kafkas_bytes(name: str, version: str, vector: str) -> None:
    cls = m.message_class(name)
    message = filled(cls, int(version))
    assert encode(message, int(version)).hex() == vector
    assert decode(cls, bytes.fromhex(vector), int(version)) == message


def test_every_record_of_every_internal_topic_is_among_them() -> None:
    names = {
        message
        for table in ("group_records", "transaction_records", "share_records")
        for message in schema.table(table)
    }
    assert names == {name for name, _, _ in VECTORS}
