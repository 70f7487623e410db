"""Loading into a Delta table, through delta-rs: no jar, no JVM.

The offsets stand in the table's own transaction log, as *application transactions*: one application id per load and
topic-partition, whose version is the offset up to which it has been loaded. Delta keeps them for ever, carries them
over into its checkpoints, and refuses a commit when another one moved the same application id meanwhile, which is just
what a load needs. Appends of others do not disturb it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from penstock.client.types import TopicPartition
from penstock.spark.parquet_files import ParquetTaskWriter
from penstock.spark.ranges import Offsets, from_json, to_json
from penstock.spark.tables import ConcurrentLoad, SchemaMismatch, Written, check_schema, moved, total_rows

_MANY = 100
_RECENT = 100


class DeltaTarget:
    """A Delta table at a path or URI."""

    def __init__(self, root: str, name: str, partition_by: tuple[str, ...], partitions: list[TopicPartition]) -> None:
        self._root = root
        self._name = name
        self._partition_by = partition_by
        self._partitions = partitions
        self._schema: Schema | None = None
        # The same handle reads the offsets and commits: Delta compares against what this handle saw.
        self._table = DeltaTable(root) if DeltaTable.is_deltatable(root) else None

    def offsets(self) -> Offsets:
        found: Offsets = {}
        if self._table is not None:
            if len(self._partitions) > _MANY:
                committed = self._from_history()
                if committed is not None:
                    return committed
            for tp in self._partitions:
                version = self._table.transaction_version(self._app_id(tp))
                if version is not None:
                    found[tp] = version
        return found

    def _from_history(self) -> Offsets | None:
        """All offsets from the text of this load's last commit: looking up ten thousand ids one by one takes long."""
        assert self._table is not None
        for entry in self._table.history(_RECENT):
            if entry.get("penstock.load") == self._name and entry["version"] <= self._table.version():
                recorded = from_json(json.loads(entry["penstock.offsets"]))
                return {tp: recorded[tp] for tp in self._partitions if tp in recorded}
        return None  # long ago, or never

    def _app_id(self, tp: TopicPartition) -> str:
        return f"penstock/{self._name}/{tp.topic}/{tp.partition}"

    def prepare(self, schema: pa.Schema) -> ParquetTaskWriter:
        self._schema = Schema.from_arrow(schema)
        for name in self._partition_by:
            if name not in schema.names:
                raise SchemaMismatch(f"{self._root} is to be partitioned by {name}, which is not a column of the load")
        if self._table is None:
            if "://" not in self._root:
                Path(self._root).mkdir(parents=True, exist_ok=True)
            self._table = DeltaTable.create(
                self._root, self._schema, mode="ignore", partition_by=list(self._partition_by) or None
            )
        check_schema(f"the Delta table {self._root}", _columns(self._table.schema()), _columns(self._schema))
        there = tuple(self._table.metadata().partition_columns)
        if there != self._partition_by:
            raise SchemaMismatch(
                f"the Delta table {self._root} is partitioned by {', '.join(there) or 'nothing'}, "
                f"the load by {', '.join(self._partition_by) or 'nothing'}"
            )
        return ParquetTaskWriter(self._root, self._partition_by)

    def commit(self, written: list[Written], start: Offsets, end: Offsets) -> None:
        assert self._table is not None
        assert self._schema is not None
        actions: list[AddAction | RemoveAction] = [
            AddAction(piece.path, piece.size, dict(piece.partition_values), piece.modified_ms, True, piece.stats)
            for piece in written
        ]
        changed = moved(start, end)
        properties = CommitProperties(
            app_transactions=[Transaction(self._app_id(tp), offset) for tp, offset in changed.items()],
            custom_metadata={
                "penstock.load": self._name,
                "penstock.offsets": json.dumps(to_json({**start, **end})),
                "penstock.rows": str(total_rows(written)),
            },
        )
        try:
            self._table.create_write_transaction(
                actions, "append", self._schema, list(self._partition_by) or None, commit_properties=properties
            )
        except CommitFailedError as error:
            raise ConcurrentLoad(
                f"the Delta table {self._root} was changed by another load {self._name!r} meanwhile; nothing of this "
                f"one was committed: {error}"
            ) from error

    def compact(self) -> int:
        if self._table is None:
            return 0
        self._table.update_incremental()
        done = self._table.optimize.compact()
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])

    def vacuum(self, retention_hours: int) -> int:
        if self._table is None:
            return 0
        self._table.update_incremental()
        return len(self._table.vacuum(retention_hours, dry_run=False, enforce_retention_duration=False, full=True))

    def close(self) -> None:
        self._table = None


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: json.dumps(json.loads(field.type.to_json()), sort_keys=True) for field in schema.fields}
