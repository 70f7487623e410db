"""Writing Parquet files in a task, split by partition columns, with bounded memory.

Each batch becomes a row group, so no more than a batch per open file is in memory. At most `MAX_OPEN` files are open:
when a task meets more partition values than that at once, the file that was written to least recently is closed, and
another one is begun if its value comes again. Compaction later merges what that leaves behind.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.spark.tables import Written

MAX_OPEN = 32
FILE_BYTES = 512 * 1024 * 1024
_ORDERED = (pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.date32())


def filesystem_of(root: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path within it."""
    if "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        return system, path
    return fs.LocalFileSystem(), root


@dataclass(frozen=True, slots=True)
class ParquetTaskWriter:
    """Writes below `root`; paths in the results are relative to it."""

    root: str
    partition_by: tuple[str, ...] = ()
    compression: str = "zstd"
    compression_level: int | None = 1
    file_bytes: int = FILE_BYTES

    def write(self, batches: Iterator[pa.RecordBatch], task: str) -> list[Written]:
        files = _Files(self, task)
        try:
            for batch in batches:
                for values, rows in _split(batch, self.partition_by):
                    files.write(values, rows)
            return files.finish()
        except BaseException:
            files.give_up()
            raise


class _Files:
    """The files of one task."""

    def __init__(self, writer: ParquetTaskWriter, task: str) -> None:
        self._writer = writer
        self._task = task
        self._filesystem, self._root = filesystem_of(writer.root)
        self._open: OrderedDict[tuple[str | None, ...], _File] = OrderedDict()
        self._done: list[Written] = []
        self._count = 0

    def write(self, values: tuple[str | None, ...], batch: pa.RecordBatch) -> None:
        file = self._open.get(values)
        if file is None:
            while len(self._open) >= MAX_OPEN:
                self._close(next(iter(self._open)))
            file = self._open[values] = self._begin(values, batch.schema)
        self._open.move_to_end(values)
        file.write(batch)
        if file.size >= self._writer.file_bytes:
            self._close(values)

    def _begin(self, values: tuple[str | None, ...], schema: pa.Schema) -> _File:
        named = dict(zip(self._writer.partition_by, values, strict=True))
        folder = "/".join(f"{name}={_in_path(value)}" for name, value in named.items())
        path = posixpath.join(folder, f"part-{self._task}-{self._count:03d}.{self._writer.compression}.parquet")
        self._count += 1
        place = posixpath.join(self._root, path)
        self._filesystem.create_dir(posixpath.dirname(place), recursive=True)
        return _File(self._filesystem.open_output_stream(place), path, named, schema, self._writer)

    def _close(self, values: tuple[str | None, ...]) -> None:
        file = self._open.pop(values)
        self._done.append(file.close())

    def finish(self) -> list[Written]:
        while self._open:
            self._close(next(iter(self._open)))
        return self._done

    def give_up(self) -> None:
        paths = [file.path for file in self._open.values()] + [piece.path for piece in self._done]
        for file in self._open.values():
            file.abandon()
        for path in paths:
            try:
                self._filesystem.delete_file(posixpath.join(self._root, path))
            except OSError:
                continue  # vacuum removes it


class _File:
    def __init__(
        self,
        stream: pa.NativeFile,
        path: str,
        values: Mapping[str, str | None],
        schema: pa.Schema,
        writer: ParquetTaskWriter,
    ) -> None:
        self.path = path
        self._values = values
        self._stream = stream
        self._rows = 0
        self._bounds: dict[str, tuple[int, int]] = {}
        # Dictionaries pay for columns that repeat; keys and values of records seldom do, and trying costs much.
        repeating = [field.name for field in schema if field.name in ("topic", "partition", "timestampType")]
        self._ordered = [field.name for field in schema if field.type in _ORDERED]
        self._parquet = pq.ParquetWriter(
            stream,
            schema,
            compression=writer.compression,
            compression_level=writer.compression_level if writer.compression in ("zstd", "gzip") else None,
            use_dictionary=repeating or False,
            write_statistics=self._ordered or False,
        )

    @property
    def size(self) -> int:
        return int(self._stream.tell())

    def write(self, batch: pa.RecordBatch) -> None:
        self._parquet.write_batch(batch)
        self._rows += batch.num_rows
        for name in self._ordered:
            found = pc.min_max(batch.column(name)).as_py()
            low, high = found["min"], found["max"]
            if isinstance(low, int) and isinstance(high, int):
                before = self._bounds.get(name, (low, high))
                self._bounds[name] = (min(before[0], low), max(before[1], high))

    def close(self) -> Written:
        self._parquet.close()
        size = self.size
        self._stream.close()
        stats = {
            "numRecords": self._rows,
            "minValues": {name: low for name, (low, _) in self._bounds.items()},
            "maxValues": {name: high for name, (_, high) in self._bounds.items()},
        }
        return Written(self.path, self._rows, size, self._values, json.dumps(stats), int(time.time() * 1000))

    def abandon(self) -> None:
        try:
            self._stream.close()
        except OSError:
            pass


def _split(
    batch: pa.RecordBatch, partition_by: tuple[str, ...]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows of a batch by the values of the partition columns, which the files themselves do not hold."""
    if not partition_by:
        yield (), batch
        return
    kept = [name for name in batch.schema.names if name not in partition_by]
    table = pa.Table.from_batches([batch])
    numbered = table.append_column("__row", pa.array(range(batch.num_rows), pa.int64()))
    groups = numbered.group_by(list(partition_by)).aggregate([("__row", "list")])
    if groups.num_rows == 1:
        (only,) = groups.select(list(partition_by)).to_pylist()
        yield tuple(None if only[name] is None else str(only[name]) for name in partition_by), batch.select(kept)
        return
    for group in groups.to_pylist():
        values = tuple(None if group[name] is None else str(group[name]) for name in partition_by)
        yield values, batch.take(pa.array(group["__row_list"], pa.int64())).select(kept)


def _in_path(value: str | None) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" -_.~")
