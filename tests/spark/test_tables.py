"""What every kind of table promises a load, checked on each: rows and offsets change together or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from penstock.client.types import TopicPartition
from penstock.spark.delta import DeltaTarget
from penstock.spark.folder import FolderTarget
from penstock.spark.tables import ConcurrentLoad, SchemaMismatch, Table, Written
from tests.postgres import PostgresServer

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SCHEMA = pa.schema([pa.field("offset", pa.int64()), pa.field("value", pa.binary()), pa.field("day", pa.string())])

Open = Callable[..., Table]


def batch(first: int, count: int) -> pa.RecordBatch:
    offsets = list(range(first, first + count))
    return pa.RecordBatch.from_pydict(
        {"offset": offsets, "value": [b"%d" % n for n in offsets], "day": [f"day/{n % 2}" for n in offsets]},
        schema=SCHEMA,
    )


def open_delta(root: Path, name: str = "load", partition_by: tuple[str, ...] = ()) -> Table:
    return DeltaTarget(str(root), name, partition_by, [A, B])


def open_folder(root: Path, name: str = "load", partition_by: tuple[str, ...] = ()) -> Table:
    return FolderTarget(str(root), name, partition_by, [A, B])


def rows_of(root: Path) -> list[int]:
    if DeltaTable.is_deltatable(str(root)):
        table = DeltaTable(str(root)).to_pyarrow_table()
    else:
        table = ds.dataset(root, format="parquet", partitioning="hive").to_table()
    return sorted(table.column("offset").to_pylist())


def write(table: Table, first: int, count: int, task: str = "task") -> list[Written]:
    return table.prepare(SCHEMA).write(iter([batch(first, count)]), task)


both = pytest.mark.parametrize("open_table", [open_delta, open_folder], ids=["delta", "folder"])


@both
def test_rows_and_offsets_are_there_after_the_commit_and_not_before(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    table = open_table(root)
    assert table.offsets() == {}
    written = write(table, 0, 10)
    assert open_table(root).offsets() == {}
    table.commit(written, {}, {A: 10, B: 0})
    again = open_table(root)
    assert again.offsets() == {A: 10, B: 0}
    again.commit(write(again, 10, 5, "other"), {A: 10, B: 0}, {A: 15, B: 0})
    assert rows_of(root) == list(range(15))
    assert open_table(root).offsets() == {A: 15, B: 0}


@both
def test_what_was_written_but_not_committed_is_never_seen(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    dead = open_table(root)
    write(dead, 0, 10, "dead")
    table = open_table(root)
    table.commit(write(table, 0, 10), {}, {A: 10})
    assert rows_of(root) == list(range(10))


@both
def test_the_second_of_two_loads_at_once_commits_nothing(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    first = open_table(root)
    first.commit(write(first, 0, 1, "zero"), {}, {A: 1})
    one, two = open_table(root), open_table(root)
    written_one, written_two = write(one, 1, 4, "one"), write(two, 1, 4, "two")
    one.commit(written_one, {A: 1}, {A: 5})
    with pytest.raises(ConcurrentLoad):
        two.commit(written_two, {A: 1}, {A: 5})
    assert rows_of(root) == list(range(5))
    assert open_table(root).offsets() == {A: 5}


@both
def test_partition_columns_become_folders_that_readers_understand(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    table = open_table(root, partition_by=("day",))
    written = write(table, 0, 10)
    assert {piece.partition_values["day"] for piece in written} == {"day/0", "day/1"}
    table.commit(written, {}, {A: 10})
    assert rows_of(root) == list(range(10))
    assert len(list(root.glob("day=*"))) == 2


@both
def test_another_schema_is_refused_with_the_columns(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    table = open_table(root)
    table.commit(write(table, 0, 1), {}, {A: 1})
    with pytest.raises(SchemaMismatch, match="lacks colour"):
        open_table(root).prepare(SCHEMA.append(pa.field("colour", pa.string())))
    with pytest.raises(SchemaMismatch, match=r"offset is .* loaded as"):
        open_table(root).prepare(pa.schema([pa.field("offset", pa.string()), *list(SCHEMA)[1:]]))
    with pytest.raises(SchemaMismatch, match="partitioned by"):
        open_table(root, partition_by=("day",)).prepare(SCHEMA)


@both
def test_two_loads_of_different_names_keep_their_own_offsets(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    eu = open_table(root, "eu")
    eu.commit(write(eu, 0, 5, "eu"), {}, {A: 5})
    us = open_table(root, "us")
    assert us.offsets() == {}
    us.commit(write(us, 100, 5, "us"), {}, {A: 105})
    assert open_table(root, "eu").offsets() == {A: 5}
    assert len(rows_of(root)) == 10


@both
def test_compaction_keeps_rows_and_offsets(tmp_path: Path, open_table: Open) -> None:
    root = tmp_path / "table"
    for number in range(4):
        table = open_table(root)
        done = {A: number * 10} if number else {}
        table.commit(write(table, number * 10, 10, f"task{number}"), done, {A: number * 10 + 10})
    table = open_table(root)
    assert table.compact() == 3
    table.vacuum(0)
    assert rows_of(root) == list(range(40))
    assert len(list(root.glob("part-*.parquet"))) == 1
    assert open_table(root).offsets() == {A: 40}


def test_offsets_of_very_many_partitions_are_found_at_once(tmp_path: Path) -> None:
    many = [TopicPartition("t", number) for number in range(1000)]
    offsets = {tp: tp.partition * 3 for tp in many}
    table = DeltaTarget(str(tmp_path), "load", (), many)
    table.commit(write(table, 0, 1), {}, offsets)
    again = DeltaTarget(str(tmp_path), "load", (), many)
    again.commit(write(again, 1, 1, "two"), offsets, {**offsets, many[7]: 100})
    other = DeltaTarget(str(tmp_path), "other", (), many)
    other.commit(write(other, 2, 1, "three"), {}, {many[0]: 5})
    assert DeltaTarget(str(tmp_path), "load", (), many).offsets() == {**offsets, many[7]: 100}
    assert DeltaTarget(str(tmp_path), "load", (), many[5:9]).offsets()[many[7]] == 100


def test_a_folder_whose_driver_died_after_the_commit_is_finished_by_the_next(tmp_path: Path) -> None:
    root = tmp_path / "table"
    table = FolderTarget(str(root), "load", (), [A])
    written = write(table, 0, 10)
    staged = next((root / "_penstock" / "staging").rglob("*.parquet"))
    kept = tmp_path / "kept"
    shutil.copy(staged, kept)
    table.commit(written, {}, {A: 10})
    # As it was in the moment between the manifest and the move.
    staged.parent.mkdir(parents=True)
    next(root.glob("*.parquet")).unlink()
    shutil.copy(kept, staged)
    assert FolderTarget(str(root), "load", (), [A]).offsets() == {A: 10}
    assert rows_of(root) == list(range(10))


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    with PostgresServer("-c fsync=off") as server:
        yield server.url()


def test_postgres_commits_rows_and_offsets_together(database: str) -> None:
    import psycopg

    from penstock.spark.postgres import PostgresTarget

    def count() -> int:
        with psycopg.connect(database) as connection:
            row = connection.execute('SELECT count(*), count(DISTINCT "offset") FROM lake').fetchone()
            assert row is not None
            assert row[0] == row[1]
            return int(row[0])

    table = PostgresTarget(database, "lake", "load", [A, B])
    assert table.offsets() == {}
    writer = table.prepare(SCHEMA)
    writer.write(iter([batch(0, 10)]), "attempt that died later")
    written = writer.write(iter([batch(0, 10)]), "attempt that won")
    assert count() == 0
    table.commit(written, {}, {A: 10, B: 0})
    table.close()
    assert count() == 10

    again = PostgresTarget(database, "lake", "load", [A, B])
    assert again.offsets() == {A: 10, B: 0}
    with pytest.raises(ConcurrentLoad, match="is running"):
        PostgresTarget(database, "lake", "load", [A, B])
    with pytest.raises(ConcurrentLoad, match="was moved"):
        again.commit(write(again, 10, 5), {A: 3}, {A: 15})
    assert count() == 10
    again.close()

    other = PostgresTarget(database, "lake", "load", [A, B])
    with pytest.raises(SchemaMismatch, match="lacks colour"):
        other.prepare(SCHEMA.append(pa.field("colour", pa.string())))
    other.close()
