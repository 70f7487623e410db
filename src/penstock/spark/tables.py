"""What a load needs of a table, whatever kind it is.

A table keeps, beside its rows, the offsets up to which it has been loaded, and changes both in one atomic commit. So
there is no second place that could disagree: a load that died is simply run again, one that was done already finds
nothing to do. Tasks write data that nobody sees; only the commit on the driver makes it part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from penstock.client.errors import UsageError
from penstock.spark.ranges import Offsets


class SchemaMismatch(UsageError):
    """The table has other columns than what is loaded."""


class ConcurrentLoad(Exception):
    """Somebody else moved the table's offsets meanwhile. Nothing of this load was committed; run it again."""


class WriteFailed(Exception):
    """A task could not write what it had read, for want of space for instance. Nothing of the load was committed."""


@dataclass(frozen=True, slots=True)
class Written:
    """One piece that a task wrote: a file, or rows in a staging table. Invisible until it is committed."""

    path: str
    rows: int
    size: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = ""
    modified_ms: int = 0


class TaskWriter(Protocol):
    """The part of a table that travels to tasks."""

    def write(self, batches: Iterator[pa.RecordBatch], task: str) -> list[Written]:
        """Write all batches under names that contain `task`, which no other attempt has."""


class Table(Protocol):
    """A table that is being loaded, as the driver sees it. Use one object for one load."""

    def offsets(self) -> Offsets:
        """Up to where the table has been loaded."""

    def prepare(self, schema: pa.Schema) -> TaskWriter:
        """Create the table if there is none; raise `SchemaMismatch` if there is one with other columns."""

    def commit(self, written: list[Written], start: Offsets, end: Offsets) -> None:
        """Add what was written and move the offsets from `start` to `end`, or change nothing and raise."""

    def compact(self) -> int:
        """Merge small files; returns how many files that removed."""

    def vacuum(self, retention_hours: int) -> int:
        """Remove files that belong to no version of the table; returns how many."""

    def close(self) -> None: ...


def check_schema(name: str, here: Mapping[str, str], loaded: Mapping[str, str]) -> None:
    """Raise `SchemaMismatch` unless both have the same columns of the same types."""
    if here == loaded:
        return
    missing = [f"{column} {kind}" for column, kind in loaded.items() if column not in here]
    extra = [f"{column} {kind}" for column, kind in here.items() if column not in loaded]
    other = [
        f"{column} is {here[column]}, loaded as {kind}"
        for column, kind in loaded.items()
        if column in here and here[column] != kind
    ]
    parts = [
        f"the table lacks {', '.join(missing)}" if missing else "",
        f"the table also has {', '.join(extra)}" if extra else "",
        "; ".join(other),
        "the columns stand in another order" if not (missing or extra or other) else "",
    ]
    differences = "; ".join(part for part in parts if part)
    raise SchemaMismatch(
        f"{name} does not fit what is loaded: {differences}. Change the table first, or load into another one"
    )


def moved(start: Offsets, end: Offsets) -> Offsets:
    """The partitions whose offset changes."""
    return {tp: offset for tp, offset in end.items() if start.get(tp) != offset}


def total_rows(written: Iterable[Written]) -> int:
    return sum(piece.rows for piece in written)
