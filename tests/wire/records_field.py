"""The records of a decoded message. A broker may put a range of a file there; what was decoded is bytes."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol


class HasRecords(Protocol):
    @property
    def records(self) -> bytes | bytearray | memoryview | Sized | None: ...


def records_of(data: HasRecords) -> bytes:
    """Its batches; nothing where the field is null."""
    records = data.records
    if records is None:
        return b""
    assert isinstance(records, bytes | bytearray | memoryview)
    return bytes(records)
