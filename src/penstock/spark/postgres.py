"""Loading into PostgreSQL.

Tasks COPY their rows into a staging table, each attempt under a token of its own. The driver then copies the rows of
the attempts that won into the table and moves the offsets, in one transaction. The offsets stand in the table
`penstock_offsets` of the same schema.

One load of a name runs at a time: the driver holds an advisory lock, which the server gives back when the driver dies.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import sql

from penstock.client.errors import UsageError
from penstock.client.types import TopicPartition
from penstock.spark.ranges import Offsets
from penstock.spark.tables import ConcurrentLoad, Written, check_schema, moved

_OFFSETS = "penstock_offsets"
_TOKEN = "penstock_attempt"


def sql_type(kind: pa.DataType) -> str:
    """The column type for an Arrow type; what has no counterpart is kept as JSON."""
    plain = {
        pa.binary(): "bytea",
        pa.large_binary(): "bytea",
        pa.string(): "text",
        pa.large_string(): "text",
        pa.bool_(): "boolean",
        pa.int8(): "smallint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.date32(): "date",
    }
    if kind in plain:
        return plain[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp without time zone"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return "jsonb"


@dataclass(frozen=True, slots=True)
class CopyWriter:
    """Copies the rows of a task into the staging table."""

    dsn: str
    schema: str
    staging: str

    def write(self, batches: Iterator[pa.RecordBatch], task: str) -> list[Written]:
        rows = size = 0
        with psycopg.connect(self.dsn) as connection, connection.cursor() as cursor:
            for batch in batches:
                names = batch.schema.names
                statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
                    sql.Identifier(self.schema, self.staging),
                    sql.SQL(", ").join(map(sql.Identifier, [*names, _TOKEN])),
                )
                as_json = [sql_type(field.type) == "jsonb" for field in batch.schema]
                columns = [
                    [_json(cell) for cell in column.to_pylist()] if nested else column.to_pylist()
                    for column, nested in zip(batch.columns, as_json, strict=True)
                ]
                with cursor.copy(statement) as copy:
                    for row in zip(*columns, strict=True):
                        copy.write_row((*row, task))
                rows += batch.num_rows
                size += batch.nbytes
        return [Written(task, rows, size)] if rows else []


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, default=_text)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class PostgresTarget:
    """A table of a PostgreSQL database, named `table` or `schema.table`."""

    def __init__(self, dsn: str, table: str, name: str, partitions: list[TopicPartition]) -> None:
        if not table:
            raise UsageError("the table is missing: give --table NAME, or table=… in Python")
        self._dsn = dsn
        schema, _, plain = table.rpartition(".")
        self._schema, self._table = schema or "public", plain
        self._name = name
        self._partitions = partitions
        slug = re.sub(r"\W+", "_", name.lower())[:20]
        self._family = f"penstock_staging_{slug}_{zlib.crc32(name.encode()):08x}_"
        self._staging = f"{self._family}{uuid.uuid4().hex[:8]}"
        self._columns: list[str] = []
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._lock()
        self._execute(
            "CREATE TABLE IF NOT EXISTS {} (load_name text, topic text, partition int, next_offset bigint NOT NULL, "
            "PRIMARY KEY (load_name, topic, partition))",
            self._named(_OFFSETS),
        )

    def _named(self, table: str) -> sql.Identifier:
        return sql.Identifier(self._schema, table)

    def _execute(self, statement: str, *parts: sql.Composable, values: tuple[object, ...] = ()) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(statement).format(*parts), values or None)

    def _lock(self) -> None:
        key = zlib.crc32(f"penstock/{self._schema}.{self._table}/{self._name}".encode())
        row = self._execute("SELECT pg_try_advisory_lock(%s)", values=(key,)).fetchone()
        if row is None or not row[0]:
            self._connection.close()
            raise ConcurrentLoad(f"another load {self._name!r} into {self._schema}.{self._table} is running")

    def offsets(self) -> Offsets:
        found = self._execute(
            "SELECT topic, partition, next_offset FROM {} WHERE load_name = %s",
            self._named(_OFFSETS),
            values=(self._name,),
        ).fetchall()
        offsets = {TopicPartition(topic, partition): offset for topic, partition, offset in found}
        return {tp: offset for tp, offset in offsets.items() if tp in self._partitions}

    def prepare(self, schema: pa.Schema) -> CopyWriter:
        self._drop_leftovers()
        self._columns = list(schema.names)
        expected = {field.name: sql_type(field.type) for field in schema}
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in expected.items()
        )
        self._execute("CREATE TABLE IF NOT EXISTS {} ({})", self._named(self._table), columns)
        found = self._execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            values=(self._named(self._table).as_string(self._connection),),
        ).fetchall()
        check_schema(f"the table {self._schema}.{self._table}", dict(found), expected)
        self._execute(
            "CREATE UNLOGGED TABLE {} ({}, {} text NOT NULL)",
            self._named(self._staging),
            columns,
            sql.Identifier(_TOKEN),
        )
        return CopyWriter(self._dsn, self._schema, self._staging)

    def _drop_leftovers(self) -> None:
        """Staging tables of loads of this name that died; the lock says that none of them lives."""
        found = self._execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)",
            values=(self._schema, self._family),
        ).fetchall()
        for (table,) in found:
            self._execute("DROP TABLE IF EXISTS {}", self._named(table))

    def commit(self, written: list[Written], start: Offsets, end: Offsets) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns))
        with self._connection.transaction():
            self._execute(
                "INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} = ANY(%s)",
                self._named(self._table),
                columns,
                columns,
                self._named(self._staging),
                sql.Identifier(_TOKEN),
                values=([piece.path for piece in written],),
            )
            for tp, offset in moved(start, end).items():
                self._move(tp, start.get(tp), offset)
            self._execute("DROP TABLE {}", self._named(self._staging))

    def _move(self, tp: TopicPartition, before: int | None, offset: int) -> None:
        done = self._execute(
            "INSERT INTO {} AS o VALUES (%s, %s, %s, %s) ON CONFLICT (load_name, topic, partition) "
            "DO UPDATE SET next_offset = EXCLUDED.next_offset WHERE o.next_offset = %s",
            self._named(_OFFSETS),
            values=(self._name, tp.topic, tp.partition, offset, before),
        )
        if done.rowcount != 1:
            raise ConcurrentLoad(f"the offset of {tp} was moved by another load; nothing of this one was committed")

    def compact(self) -> int:
        return 0  # the server keeps its own house

    def vacuum(self, retention_hours: int) -> int:
        return 0

    def close(self) -> None:
        if not self._connection.closed:
            self._execute("DROP TABLE IF EXISTS {}", self._named(self._staging))
            self._connection.close()
