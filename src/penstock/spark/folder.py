"""Loading into a plain folder of Parquet files, which any tool can read.

A folder has no transaction log, so one is kept in it, where readers do not look (names that begin with `_` are hidden
from Spark, pandas, DuckDB and the rest):

    orders/
      date=2026-01-31/part-….parquet      what readers see
      _penstock/staging/<run>/…           what tasks are writing
      _penstock/commits/00000000000000000007.json   commit 7: its files, and the offsets up to which it loads

A commit is one link(2) of its manifest into place, which fails if that number is taken. Then the files move from
staging to where readers see them. A driver that dies in between has committed: the next one to open the folder finishes
the move. It is made for file systems with links (local disks, NFS); elsewhere use Delta.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.client.errors import UsageError
from penstock.client.types import TopicPartition
from penstock.spark.parquet_files import ParquetTaskWriter
from penstock.spark.ranges import Offsets, from_json, to_json
from penstock.spark.tables import ConcurrentLoad, SchemaMismatch, Written, check_schema, moved, total_rows

_OWN = "_penstock"
_SMALL_BYTES = 64 * 1024 * 1024


class FolderTarget:
    """A folder of Parquet files on a file system with links."""

    def __init__(self, root: str, name: str, partition_by: tuple[str, ...], partitions: list[TopicPartition]) -> None:
        if "://" in root:
            raise UsageError(
                f"{root} is not a folder of a local file system; load it as Delta (--format delta) instead"
            )
        self._root = Path(root)
        self._name = name
        self._partition_by = partition_by
        self._partitions = partitions
        self._commits = self._root / _OWN / "commits"
        self._run = uuid.uuid4().hex[:12]
        self._staging = self._root / _OWN / "staging" / self._run
        self._seen = self._last_commit()
        if self._seen:
            self._finish(self._manifest(self._seen))
        self._schema: pa.Schema | None = None
        self._published = False

    def _last_commit(self) -> int:
        numbers = [int(path.stem) for path in self._commits.glob("*.json")] if self._commits.is_dir() else []
        return max(numbers, default=0)

    def _path_of(self, number: int) -> Path:
        return self._commits / f"{number:020d}.json"

    def _manifest(self, number: int) -> dict[str, object]:
        manifest = json.loads(self._path_of(number).read_text())
        assert isinstance(manifest, dict)
        return manifest

    def _all_offsets(self) -> dict[str, dict[str, dict[str, int]]]:
        """Of every load that writes here; each manifest carries them all, so that only the last one is read."""
        if not self._seen:
            return {}
        offsets = self._manifest(self._seen)["offsets"]
        assert isinstance(offsets, dict)
        return offsets

    def offsets(self) -> Offsets:
        found = from_json(self._all_offsets().get(self._name, {}))
        return {tp: offset for tp, offset in found.items() if tp in self._partitions}

    def prepare(self, schema: pa.Schema) -> ParquetTaskWriter:
        for name in self._partition_by:
            if name not in schema.names:
                raise SchemaMismatch(f"{self._root} is to be partitioned by {name}, which is not a column of the load")
        self._schema = schema
        if self._seen:
            there = self._manifest(self._seen)
            columns, partition_by = there["columns"], there["partition_by"]
            assert isinstance(columns, dict)
            check_schema(f"the folder {self._root}", columns, _columns(schema))
            if partition_by != list(self._partition_by):
                raise SchemaMismatch(f"the folder {self._root} is partitioned by {partition_by}")
        self._staging.mkdir(parents=True, exist_ok=True)
        return ParquetTaskWriter(str(self._staging), self._partition_by)

    def commit(self, written: list[Written], start: Offsets, end: Offsets) -> None:
        assert self._schema is not None
        offsets = self._all_offsets()
        mine = from_json(offsets.get(self._name, {}))
        offsets[self._name] = to_json({**mine, **moved(start, end)})
        self._publish(
            {
                "load": self._name,
                "run": self._run,
                "time_ms": int(time.time() * 1000),
                "rows": total_rows(written),
                "columns": _columns(self._schema),
                "partition_by": list(self._partition_by),
                "offsets": offsets,
                "add": [piece.path for piece in written],
                "remove": [],
            }
        )

    def _publish(self, manifest: dict[str, object]) -> None:
        self._commits.mkdir(parents=True, exist_ok=True)
        number = self._seen + 1
        draft = self._commits / f".{self._run}.draft"
        with draft.open("w") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path_of(number))
        except FileExistsError:
            raise ConcurrentLoad(
                f"the folder {self._root} got commit {number} from another load meanwhile; nothing of this one was "
                "committed"
            ) from None
        finally:
            draft.unlink(missing_ok=True)
        self._seen = number
        self._published = True
        self._finish(manifest)

    def _finish(self, manifest: dict[str, object]) -> None:
        """Move what was committed to where readers see it; nothing happens where that is done already."""
        staging = self._root / _OWN / "staging" / str(manifest["run"])
        for path in _texts(manifest["add"]):
            source, goal = staging / path, self._root / path
            if source.exists():
                goal.parent.mkdir(parents=True, exist_ok=True)
                source.replace(goal)
        for path in _texts(manifest["remove"]):
            (self._root / path).unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)

    def compact(self) -> int:
        """Merge the small files of each folder into one. A reader that lists files at that moment may see both."""
        folders: dict[Path, list[Path]] = {}
        for path in sorted(self._root.rglob("*.parquet")):
            if _OWN not in path.relative_to(self._root).parts and path.stat().st_size < _SMALL_BYTES:
                folders.setdefault(path.parent, []).append(path)
        crowded = {folder: files for folder, files in folders.items() if len(files) > 1}
        if not crowded or not self._seen:
            return 0
        self._run = uuid.uuid4().hex[:12]
        self._staging = self._root / _OWN / "staging" / self._run
        add: list[str] = []
        remove: list[str] = []
        for folder, files in crowded.items():
            path = folder.relative_to(self._root) / f"part-{self._run}-compacted.zstd.parquet"
            merged = self._staging / path
            merged.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(merged, pq.read_schema(files[0]), compression="zstd", compression_level=1) as writer:
                for file in files:
                    for batch in pq.ParquetFile(file).iter_batches():
                        writer.write_batch(batch)
            add.append(str(path))
            remove.extend(str(file.relative_to(self._root)) for file in files)
        self._publish({**self._manifest(self._seen), "run": self._run, "rows": 0, "add": add, "remove": remove})
        return len(remove) - len(add)

    def vacuum(self, retention_hours: int) -> int:
        """Remove what tasks of loads that died left in staging."""
        staging = self._root / _OWN / "staging"
        oldest = time.time() - retention_hours * 3600
        removed = 0
        for run in staging.iterdir() if staging.is_dir() else ():
            files = list(run.rglob("*.parquet"))
            if all(file.stat().st_mtime < oldest for file in files):
                removed += len(files)
                shutil.rmtree(run, ignore_errors=True)
        return removed

    def close(self) -> None:
        # After the commit the staged files are the table's, moved or not.
        if not self._published and self._staging.is_dir():
            shutil.rmtree(self._staging, ignore_errors=True)


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(item) for item in value]
