"""Loading topics into a table: once, or again and again, each record exactly once.

    load("orders", "lake/orders", bootstrap_servers="127.0.0.1:9092")

1. The driver asks the table up to where it has been loaded, and the cluster where the topics end now.
2. What lies between is cut into ranges, one Spark task each. A task fetches its range, decodes it straight into Arrow,
   parses it if asked to, and writes it where nobody looks: rows never pass through the JVM.
3. The driver commits all that the tasks wrote, and the new offsets, in one atomic step.

A task that dies is run again from the start of its range, and what it wrote before is never committed. A load that dies
before the commit has changed nothing; after it, everything. So running it again is always right.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.client.errors import UsageError
from penstock.client.types import TopicPartition
from penstock.spark.fetching import FetchSettings
from penstock.spark.options import COLUMNS, Bound, SourceOptions, parse_options
from penstock.spark.parsing import PLACE, BatchFunction, Parser, add_date, make_parser
from penstock.spark.planning import ClusterView, DataLoss, check_available, resolve
from penstock.spark.ranges import OffsetRange, Offsets, split_ranges, to_json
from penstock.spark.reading import arrow_schema, read_range
from penstock.spark.security import as_options
from penstock.spark.source import settings_of
from penstock.spark.tables import Table, TaskWriter, WriteFailed, Written, total_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("delta", "parquet", "postgres")
Progress = Callable[[int, int], None]
"""Called with how many tasks are done, and how many there are."""
Transform = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """What a load did, or with `dry_run` what it would do."""

    name: str
    target: str
    rows: int = 0
    bytes: int = 0
    files: int = 0
    tasks: int = 0
    seconds: float = 0.0
    lag_before: int = 0
    lag_after: int = 0
    start: Offsets = field(default_factory=dict)
    end: Offsets = field(default_factory=dict)
    ranges: tuple[OffsetRange, ...] = ()

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def load(
    topics: str | Iterable[str],
    to: str,
    *,
    bootstrap_servers: str = "127.0.0.1:9092",
    format: str | None = None,
    table: str = "",
    name: str = "",
    parse: str | BatchFunction | None = None,
    schema: pa.Schema | Mapping[str, object] | str | None = None,
    keep: Iterable[str] = PLACE,
    skip_bad: bool = False,
    columns: Iterable[str] = COLUMNS,
    partition_by: str | Iterable[str] = (),
    transforms: Sequence[Transform] = (),
    options: Mapping[str, object] | None = None,
    tasks: int | None = None,
    compact: bool = False,
    vacuum_hours: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
) -> LoadSummary:
    """Load what a table lacks of topics, up to their present end, each record exactly once.

    `to` is a path or URI (Delta; `format="parquet"` for a plain folder) or a `postgresql://` address with `table`.
    `name` tells several loads into one table apart. `parse` is "json", "avro" or a function from RecordBatch to
    RecordBatch, with its `schema`; `keep` names the columns of the record that are kept beside the parsed ones.
    `partition_by` names columns; "date" is the day of the record if there is no column of that name. `options` are
    those of the source, for example {"kafka.isolation.level": "read_committed", "startingOffsets": …}, and those of
    TLS and SASL: {"kafka.security.protocol": "SASL_SSL", …}.

    With `transforms`, functions from DataFrame to DataFrame, the rows pass through Spark SQL on their way; the commit
    is the same. Then there is nothing to parse: use Spark's `from_json` and the like.
    """
    started = time.monotonic()
    source = _source_options(topics, bootstrap_servers, options)
    plan = Plan(
        columns=tuple(columns),
        parser=make_parser(parse, schema, tuple(keep), skip_bad),
        partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
        fetch=settings_of(source),
    )
    name = name or str(source.subscription)
    with ClusterView(source.bootstrap_servers, source.client_id, security=source.security) as view:
        partitions = view.partitions(source.subscription)
        with closing(open_table(to, format, table, name, plan.partition_by, partitions)) as target:
            done = target.offsets()
            start, end, ranges = _plan_ranges(view, source, partitions, done)
            pieces = split_ranges(ranges, min_partitions=tasks, max_records=source.max_records_per_partition)
            lag = sum(piece.size for piece in ranges)
            if dry_run or not pieces:
                return LoadSummary(
                    name, to, tasks=len(pieces), lag_before=lag, lag_after=lag, start=start, end=end,
                    ranges=tuple(pieces), seconds=time.monotonic() - started,
                )  # fmt: skip
            if transforms:
                frame = _transformed(_spark(spark), source, plan, start, end, transforms, len(pieces))
                written = _write_frame(frame, target, plan, len(pieces), progress)
            else:
                writer = target.prepare(plan.schema())
                written = _run_tasks(_spark(spark), plan, writer, pieces, progress)
            target.commit(written, done, end)
            if compact:
                target.compact()
            if vacuum_hours is not None:
                target.vacuum(vacuum_hours)
        newest = view.latest(partitions, source.isolation)
    return LoadSummary(
        name=name,
        target=to,
        rows=total_rows(written),
        bytes=sum(piece.size for piece in written),
        files=len(written),
        tasks=len(pieces),
        seconds=time.monotonic() - started,
        lag_before=lag,
        lag_after=sum(max(newest[tp] - offset, 0) for tp, offset in end.items()),
        start=start,
        end=end,
        ranges=tuple(pieces),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task needs besides its range."""

    columns: tuple[str, ...]
    parser: Parser | None
    partition_by: tuple[str, ...]
    fetch: FetchSettings

    def read_columns(self) -> tuple[str, ...]:
        """What is read from the record: a parser may need more than what is asked for."""
        if self.parser is not None:
            return (*COLUMNS, "headers") if "headers" in self.columns else COLUMNS
        return self.columns

    def derives_date(self, schema: pa.Schema) -> bool:
        return "date" in self.partition_by and "date" not in schema.names

    def schema(self) -> pa.Schema:
        given = arrow_schema(self.read_columns())
        made = given if self.parser is None else self.parser.schema(given)
        if not self.derives_date(made):
            return made
        if "timestamp" not in given.names:
            raise UsageError("to partition by date, timestamp must be among the columns")
        return made.append(pa.field("date", pa.date32()))

    def batches(self, span: OffsetRange) -> RangeBatches:
        return RangeBatches(self, span)

    def made_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = batch if self.parser is None else self.parser.parse(batch)
        if not self.derives_date(made.schema):
            return made
        if self.parser is None:
            return add_date(made)
        if made.num_rows != batch.num_rows:
            raise UsageError("records were left out, so their date is not known: add timestamp to keep")
        return made.append_column("date", add_date(batch).column("date"))


class RangeBatches:
    """What is to be written of one range, and where in it the task is, for the error when it cannot be written."""

    def __init__(self, plan: Plan, span: OffsetRange) -> None:
        self._plan = plan
        self._range = span
        self._offset = span.start
        self._is_handed_out = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in read_range(self._range, self._plan.fetch, self._plan.read_columns()):
            if "offset" in batch.schema.names:
                self._offset = batch.column("offset")[0].as_py()
            made = self._plan.made_of(batch)
            self._is_handed_out = True
            yield made
            self._is_handed_out = False
        self._is_handed_out = True  # the end of a file is written when everything has been read

    def written_by(self, writer: TaskWriter, name: str) -> list[Written]:
        try:
            return writer.write(iter(self), name)
        except OSError as error:
            if not self._is_handed_out:
                raise  # it could not be read, and says itself where
            place = f"partition {self._range.topic}-{self._range.partition} offset {self._offset}"
            raise WriteFailed(
                f"{place}: the records from there on could not be written, and nothing of this load is in the table: "
                f"{error}"
            ) from error


def _source_options(
    topics: str | Iterable[str], bootstrap_servers: str, options: Mapping[str, object] | None
) -> SourceOptions:
    given = {str(name): str(value) for name, value in (options or {}).items()}
    given.setdefault("kafka.bootstrap.servers", bootstrap_servers)
    if not any(name.lower() in ("subscribe", "subscribepattern", "assign") for name in given):
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    return parse_options(given)


def open_table(
    to: str,
    format: str | None,
    table: str,
    name: str,
    partition_by: tuple[str, ...],
    partitions: list[TopicPartition],
) -> Table:
    """The table that `to` names."""
    if "://" not in to:
        to = str(Path(to).absolute())  # tasks have another working folder
    kind = format or ("postgres" if to.startswith(("postgresql://", "postgres://")) else "delta")
    if kind == "delta":
        from penstock.spark.delta import DeltaTarget

        return DeltaTarget(to, name, partition_by, partitions)
    if kind == "parquet":
        from penstock.spark.folder import FolderTarget

        return FolderTarget(to, name, partition_by, partitions)
    if kind == "postgres":
        from penstock.spark.postgres import PostgresTarget

        return PostgresTarget(to, table, name, partitions)
    raise UsageError(f"format is {format!r}; it must be one of {', '.join(FORMATS)}")


def _plan_ranges(
    view: ClusterView, source: SourceOptions, partitions: list[TopicPartition], done: Offsets
) -> tuple[Offsets, Offsets, list[OffsetRange]]:
    """Where each partition starts and ends, and the ranges between; what the table has wins over startingOffsets."""
    end = resolve(view, partitions, source.ending, source)
    new = [tp for tp in partitions if tp not in done]
    starting = source.starting
    if starting.kind in ("offsets", "timestamps"):
        starting = Bound(starting.kind, {tp: offset for tp, offset in starting.offsets.items() if tp in new})
    start = {**done, **(resolve(view, new, starting, source) if new else {})}
    ranges: list[OffsetRange] = []
    for tp in partitions:
        if start[tp] > end[tp] and source.ending.kind == "latest" and tp in done:
            raise DataLoss(
                f"the table stands at offset {start[tp]} of partition {tp}, which ends at {end[tp]}: was the topic "
                "deleted and created again? Load it under another name"
            )
        end[tp] = max(end[tp], start[tp])
        ranges.append(OffsetRange(tp.topic, tp.partition, start[tp], end[tp], view.topic_id(tp.topic)))
    return start, end, check_available(view, ranges, source.fail_on_data_loss)


def _spark(given: SparkSession | None) -> SparkSession:
    from penstock.spark.session import session

    return given if given is not None else session("penstock load")


def _run_tasks(
    spark: SparkSession,
    plan: Plan,
    writer: TaskWriter,
    pieces: list[OffsetRange],
    progress: Progress | None,
) -> list[Written]:
    """One Spark task per range; returns what the attempts that won have written."""
    run = uuid.uuid4().hex[:12]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        for batch in batches:
            for number in batch.column("id").to_pylist():
                written = plan.batches(pieces[number]).written_by(writer, f"{run}-{number:05d}-{attempt}")
                yield pa.RecordBatch.from_pydict({"written": [pickle.dumps(written)]})

    frame = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(work, "written binary")
    with _Watching(spark, run, len(pieces), progress):
        rows = _collect(frame)
    return [piece for row in rows for piece in pickle.loads(row)]


def _transformed(
    spark: SparkSession,
    source: SourceOptions,
    plan: Plan,
    start: Offsets,
    end: Offsets,
    transforms: Sequence[Transform],
    tasks: int,
) -> DataFrame:
    """The records between the offsets as a DataFrame, and what the transforms make of it."""
    if plan.parser is not None:
        raise UsageError("parse and transforms exclude each other: parse with from_json in a transform")
    partitions: dict[str, list[int]] = {}
    for tp in end:
        partitions.setdefault(tp.topic, []).append(tp.partition)
    reader = spark.read.format("penstock").options(
        **{
            "kafka.bootstrap.servers": source.bootstrap_servers,
            "kafka.isolation.level": source.isolation.name.lower(),
            "assign": json.dumps(partitions),
            "startingOffsets": json.dumps(to_json(start)),
            "endingOffsets": json.dumps(to_json(end)),
            "failOnDataLoss": str(source.fail_on_data_loss).lower(),
            "fetchBytes": str(source.fetch_bytes),
            "columns": ",".join(plan.columns),
            "minPartitions": str(tasks),
            **as_options(source.security),
        }
    )
    frame = reader.load()
    for transform in transforms:
        frame = transform(frame)
    return frame


def _write_frame(frame: DataFrame, target: Table, plan: Plan, tasks: int, progress: Progress | None) -> list[Written]:
    from pyspark.sql.functions import to_date
    from pyspark.sql.pandas.types import to_arrow_schema

    if "date" in plan.partition_by and "date" not in frame.columns and "timestamp" in frame.columns:
        frame = frame.withColumn("date", to_date("timestamp"))
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    writer = target.prepare(schema)
    run = uuid.uuid4().hex[:12]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number, attempt = (context.partitionId(), context.taskAttemptId()) if context is not None else (0, 0)
        made = (_as(batch, schema) for batch in batches if batch.num_rows)
        written = writer.write(made, f"{run}-{number:05d}-{attempt}")
        yield pa.RecordBatch.from_pydict({"written": [pickle.dumps(written)]})

    with _Watching(frame.sparkSession, run, tasks, progress):
        rows = _collect(frame.mapInArrow(work, "written binary"))
    return [piece for row in rows for piece in pickle.loads(row)]


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Spark names the time zone of its session in a type; the table has UTC."""
    arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _collect(frame: DataFrame) -> list[bytes]:
    return [bytes(row["written"]) for row in frame.collect()]


class _Watching:
    """Tells `progress` how many tasks of a job are done, while the job runs."""

    def __init__(self, spark: SparkSession, group: str, tasks: int, progress: Progress | None) -> None:
        self._spark = spark
        self._group = group
        self._tasks = tasks
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._spark.sparkContext.setJobGroup(self._group, "penstock load")
            self._thread.start()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._over.set()
        if self._progress is not None:
            self._thread.join(5)
            if error is None:
                self._progress(self._tasks, self._tasks)

    def _watch(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        assert self._progress is not None
        while not self._over.wait(0.25):
            done = 0
            for job in tracker.getJobIdsForGroup(self._group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info else ():
                    found = tracker.getStageInfo(stage)
                    done += found.numCompletedTasks if found else 0
            self._progress(min(done, self._tasks), self._tasks)
