"""Declared pipelines: what is read, what becomes of it, where it goes, and how often.

A pipeline is a value. It is written as a small Python file that sets `pipeline`, or as YAML with the same fields:

    from penstock.spark.pipelines import Pipeline, TableSink

    pipeline = Pipeline(
        name="orders to the lake",
        topics=["orders"],
        transforms=[only_paid],
        sink=TableSink("lake/orders", partition_by=["date"]),
    )

There are three kinds of sink. A *table* is loaded (`penstock.spark.load`), and knows itself up to where. A *topic* is
written by a streaming query, whose micro-batches are transactions. A *queue* has no DataFrame: workers of a share group
call a handler for every record (`penstock.spark.work`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.client.errors import UsageError, nearest
from penstock.client.security import SecurityConfig
from penstock.client.types import IsolationLevel, TopicPartition
from penstock.spark.load import LoadSummary, Progress, Transform, load
from penstock.spark.options import Subscription
from penstock.spark.planning import ClusterView
from penstock.spark.ranges import OffsetRange, Offsets
from penstock.spark.security import NO_SECURITY, as_options, security_in, security_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.worker import Handler

DEFAULT_FOLDER = "penstock-pipelines"
_RECENT = 100  # micro-batches that Spark remembers
_LONG_HISTORY_BYTES = 1 << 20
_RUNS_KEPT = 1_000  # of a history that has become long


@dataclass(frozen=True, kw_only=True)
class _Sink:
    """What all sinks have in common: nothing but being one."""


@dataclass(frozen=True)
class TableSink(_Sink):
    """A Delta table, a folder of Parquet files, or a table in PostgreSQL."""

    to: str
    format: str | None = None
    table: str = ""
    partition_by: Sequence[str] = ()
    parse: str | None = None
    schema: str | None = None
    compact: bool = False


@dataclass(frozen=True)
class TopicSink(_Sink):
    """A topic, written exactly once together with the offsets of the input."""

    topic: str
    checkpoint: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueSink(_Sink):
    """A handler that is called for every record, by the workers of a share group."""

    group: str
    handler: Handler
    parallelism: int = 8
    until_empty: bool = True


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Topics, where their records go, and what becomes of them on the way; `penstock pipeline run` runs it."""

    name: str
    """Letters, digits, spaces, dots and dashes; the history and the checkpoints are kept under it."""
    topics: Sequence[str]
    sink: TableSink | TopicSink | QueueSink
    """A table, a topic or a queue, from `penstock.spark.pipelines`."""
    transforms: Sequence[Transform] = ()
    """Functions from DataFrame to DataFrame, for tables and topics."""
    bootstrap_servers: str = ""
    """Brokers to connect to, unless the command says otherwise."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the source, and those of TLS and SASL."""
    every_seconds: float | None = None
    """The pause between two runs; a pipeline without one runs once."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w. -]+", self.name):
            raise UsageError(f"the pipeline's name is {self.name!r}; letters, digits, space, dot and dash are allowed")
        if not self.topics:
            raise UsageError(f"pipeline {self.name!r} reads no topics")
        if isinstance(self.sink, QueueSink) and self.transforms:
            raise UsageError(f"pipeline {self.name!r} has a handler for records; it takes no transforms")

    @property
    def slug(self) -> str:
        """The name as that of a folder."""
        return slug_of(self.name)


def slug_of(name: str) -> str:
    """The folder of a name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "unnamed"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did; a line of the history."""

    pipeline: str
    started: str
    seconds: float
    rows: int = 0
    bytes: int = 0
    files: int = 0
    tasks: int = 0
    lag_before: int | None = None
    lag_after: int | None = None
    error: str = ""

    @property
    def rows_per_second(self) -> float:
        """Rows written per second of the run."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would do."""

    pipeline: Pipeline
    ranges: tuple[OffsetRange, ...]
    tasks: int
    rows_at_most: int


# Running


def run(
    pipeline: Pipeline,
    *,
    master: str = "local[*]",
    bootstrap_servers: str = "127.0.0.1:9092",
    security: Mapping[str, object] | None = None,
    folder: str | Path = DEFAULT_FOLDER,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
) -> RunSummary:
    """Run a pipeline once and add the run to its history, also when it fails.

    `security` are the client's settings of TLS and SASL, for a pipeline that has none in its options.
    """
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    reach = Reach.of(pipeline, bootstrap_servers, security)
    if spark is None:
        from penstock.spark.session import session

        spark = session(f"penstock pipeline {pipeline.name}", master)
    history = History(folder, pipeline)
    try:
        done = _run_sink(pipeline, reach, Path(folder), spark, progress)
    except BaseException as error:
        from penstock.spark.failures import reason

        failed = RunSummary(pipeline.name, started, time.monotonic() - clock, error=reason(error) or repr(error))
        history.add(failed)
        raise
    summary = RunSummary(pipeline.name, started, round(time.monotonic() - clock, 3), **done)  # type: ignore[arg-type]
    history.add(summary)
    return summary


@dataclass(frozen=True, slots=True)
class Reach:
    """How a pipeline reaches its cluster."""

    servers: str
    security: SecurityConfig = NO_SECURITY

    @classmethod
    def of(cls, pipeline: Pipeline, servers: str, security: Mapping[str, object] | None) -> Reach:
        own = security_in(pipeline.options)
        return cls(pipeline.bootstrap_servers or servers, own if own != NO_SECURITY else security_of(security))

    def options(self) -> dict[str, str]:
        """The same as options of the source and the sink."""
        return {"kafka.bootstrap.servers": self.servers, **as_options(self.security)}

    def view(self) -> ClusterView:
        return ClusterView(self.servers, security=self.security)


def _run_sink(
    pipeline: Pipeline, reach: Reach, folder: Path, spark: SparkSession, progress: Progress | None
) -> dict[str, int | None]:
    if isinstance(pipeline.sink, TableSink):
        done = _load(pipeline, pipeline.sink, reach, spark, progress, dry_run=False)
        return {
            "rows": done.rows,
            "bytes": done.bytes,
            "files": done.files,
            "tasks": done.tasks,
            "lag_before": done.lag_before,
            "lag_after": done.lag_after,
        }
    if isinstance(pipeline.sink, TopicSink):
        return _copy(pipeline, pipeline.sink, reach, folder, spark)
    from penstock.spark.workers import work

    worked = work(
        list(pipeline.topics),
        pipeline.sink.group,
        pipeline.sink.handler,
        pipeline.sink.parallelism,
        bootstrap_servers=reach.servers,
        security=reach.security.given(),
        until_empty=pipeline.sink.until_empty,
        auto_offset_reset="earliest",
        spark=spark,
    )
    return {
        "rows": worked.counters.handled,
        "tasks": worked.tasks,
        "lag_before": worked.lag_before,
        "lag_after": worked.lag_after,
    }


def _load(
    pipeline: Pipeline,
    sink: TableSink,
    reach: Reach,
    spark: SparkSession | None,
    progress: Progress | None,
    *,
    dry_run: bool,
) -> LoadSummary:
    return load(
        pipeline.topics,
        sink.to,
        bootstrap_servers=reach.servers,
        format=sink.format,
        table=sink.table,
        name=pipeline.name,
        parse=sink.parse,
        schema=sink.schema,
        partition_by=sink.partition_by,
        transforms=pipeline.transforms,
        options={**as_options(reach.security), **pipeline.options},
        compact=sink.compact,
        dry_run=dry_run,
        progress=progress,
        spark=spark,
    )


def _copy(
    pipeline: Pipeline, sink: TopicSink, reach: Reach, folder: Path, spark: SparkSession
) -> dict[str, int | None]:
    """A streaming query up to what is the end now. The offsets of the input are committed with the output."""
    group = f"pipeline-{pipeline.slug}"
    before = _positions(pipeline, reach, group)
    reader = spark.readStream.format("penstock").options(
        **{
            **reach.options(),
            "subscribe": ",".join(pipeline.topics),
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "commitOffsets": "false",  # the sink commits them, in its transaction
            **pipeline.options,
        }
    )
    frame = reader.load()
    for transform in pipeline.transforms:
        frame = transform(frame)
    checkpoint = sink.checkpoint or str((folder / pipeline.slug / "checkpoint").absolute())
    writer = frame.writeStream.format("penstock").options(
        **{
            **(reach.options() if security_in(sink.options) == NO_SECURITY else {}),
            "kafka.bootstrap.servers": reach.servers,
            "topic": sink.topic,
            "kafka.group.id": group,
            "kafka.transactional.id": f"{group}-sink",
            "checkpointLocation": checkpoint,
            **sink.options,
        }
    )
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    rows = sum(int(batch["numInputRows"]) for batch in query.recentProgress[-_RECENT:])
    after = _positions(pipeline, reach, group)
    return {"rows": rows, "tasks": len(before), "lag_before": _lag(before), "lag_after": _lag(after)}


def _positions(pipeline: Pipeline, reach: Reach, group: str) -> list[OffsetRange]:
    """From where the group has committed to the end of each partition."""
    with reach.view() as view:
        partitions = view.partitions(Subscription(topics=tuple(pipeline.topics)))
        committed: Offsets = {tp: place.offset for tp, place in view.committed(group).items()}
        start = {**view.earliest(partitions), **{tp: at for tp, at in committed.items() if tp in partitions}}
        end = view.latest(partitions, IsolationLevel.READ_COMMITTED)
        return [_range(view, tp, start[tp], end[tp]) for tp in partitions]


def _range(view: ClusterView, tp: TopicPartition, start: int, end: int) -> OffsetRange:
    return OffsetRange(tp.topic, tp.partition, min(start, end), end, view.topic_id(tp.topic))


def _lag(ranges: Sequence[OffsetRange]) -> int:
    return sum(piece.size for piece in ranges)


def dry_run(
    pipeline: Pipeline,
    *,
    bootstrap_servers: str = "127.0.0.1:9092",
    security: Mapping[str, object] | None = None,
) -> DryRun:
    """What a run would read, and in how many tasks. Needs neither Spark nor Java, and changes nothing."""
    reach = Reach.of(pipeline, bootstrap_servers, security)
    if isinstance(pipeline.sink, TableSink):
        planned = _load(pipeline, pipeline.sink, reach, None, None, dry_run=True)
        return DryRun(pipeline, planned.ranges, planned.tasks, planned.lag_before)
    if isinstance(pipeline.sink, TopicSink):
        ranges = tuple(piece for piece in _positions(pipeline, reach, f"pipeline-{pipeline.slug}") if piece.size)
        return DryRun(pipeline, ranges, len(ranges), _lag(ranges))
    with reach.view() as view:
        partitions = view.partitions(Subscription(topics=tuple(pipeline.topics)))
        start, end = view.earliest(partitions), view.latest(partitions, IsolationLevel.READ_COMMITTED)
        ranges = tuple(_range(view, tp, start[tp], end[tp]) for tp in partitions)
    return DryRun(pipeline, ranges, pipeline.sink.parallelism, _lag(ranges))


# History


class History:
    """The last runs of a pipeline or of a load, one JSON object per line; the console shows them too."""

    def __init__(self, folder: str | Path, pipeline: Pipeline | str) -> None:
        """`pipeline` may be the name of a load."""
        slug = slug_of(pipeline) if isinstance(pipeline, str) else pipeline.slug
        self.path = Path(folder) / slug / "history.jsonl"

    def add(self, summary: RunSummary) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {name: getattr(summary, name) for name in RunSummary.__slots__}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            is_long = file.tell() > _LONG_HISTORY_BYTES
        if is_long:
            self._shorten()

    def _shorten(self) -> None:
        kept = self.path.read_text().splitlines(keepends=True)[-_RUNS_KEPT:]
        shorter = self.path.with_suffix(".new")
        shorter.write_text("".join(kept))
        shorter.replace(self.path)

    def read(self) -> list[RunSummary]:
        if not self.path.is_file():
            return []
        return [RunSummary(**json.loads(line)) for line in self.path.read_text().splitlines() if line.strip()]


# Files


def read_pipeline(path: str | Path) -> Pipeline:
    """The pipeline that a Python or YAML file declares."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    if file.suffix == ".py":
        return _from_python(file)
    if file.suffix in (".yaml", ".yml"):
        return _from_yaml(file)
    raise UsageError(f"{file} is neither a Python nor a YAML file")


def _from_python(file: Path) -> Pipeline:
    spec = importlib.util.spec_from_file_location(f"penstock_pipeline_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Not put into sys.modules: so its functions travel to Spark's workers by value, and the file need not be there.
    found = getattr(module, "pipeline", None)
    if not isinstance(found, Pipeline):
        raise UsageError(f"{file} must set `pipeline` to a penstock.spark.pipelines.Pipeline")
    return found


def _from_yaml(file: Path) -> Pipeline:
    import yaml

    try:
        given = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is no YAML: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f"{file} must hold a mapping with name, topics and sink")
    sys.path.insert(0, str(file.parent.absolute()))
    try:
        _only(file, given, ("name", "topics", "sink", "transforms", "bootstrap_servers", "options", "every_seconds"))
        fields = dict(given)
        fields["sink"] = _yaml_sink(file, given.get("sink"))
        fields["transforms"] = [cast(Transform, _named(file, name)) for name in given.get("transforms") or ()]
        fields["options"] = {str(k): str(v) for k, v in (given.get("options") or {}).items()}
        if isinstance(fields.get("topics"), str):
            fields["topics"] = [part.strip() for part in fields["topics"].split(",")]
        for name in ("name", "topics"):
            if not fields.get(name):
                raise UsageError(f"{file} has no {name}")
        return Pipeline(**fields)
    finally:
        sys.path.remove(str(file.parent.absolute()))


def _yaml_sink(file: Path, given: object) -> TableSink | TopicSink | QueueSink:
    if not isinstance(given, dict):
        raise UsageError(f"{file}: sink must be a mapping with one of to (a table), topic, group (a queue)")
    fields = {str(name): value for name, value in given.items()}
    if "to" in fields:
        _only(file, fields, ("to", "format", "table", "partition_by", "parse", "schema", "compact"))
        if isinstance(fields.get("partition_by"), str):
            fields["partition_by"] = [fields["partition_by"]]
        return TableSink(**fields)
    if "topic" in fields:
        _only(file, fields, ("topic", "checkpoint", "options"))
        return TopicSink(**fields)
    if "group" in fields:
        _only(file, fields, ("group", "handler", "parallelism", "until_empty"))
        handler = cast("Handler", _named(file, fields.pop("handler", "")))
        return QueueSink(handler=handler, **fields)
    raise UsageError(f"{file}: sink must have one of to (a table), topic, group (a queue)")


def _only(file: Path, given: Mapping[str, object], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            guess = nearest(name, known)
            raise UsageError(f"{file} has {name!r}" + (f"; did you mean {guess}?" if guess else f"; known are {known}"))


def _named(file: Path, name: object) -> Callable[..., object]:
    """The function that `module:function` names; the module may lie beside the file."""
    module, colon, attribute = str(name).partition(":")
    if not colon:
        raise UsageError(f"{file}: {name!r} must look like module:function")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{file}: {name!r} is not there: {error}") from None
    if not callable(found):
        raise UsageError(f"{file}: {name!r} is not a function")
    function: Callable[..., object] = found
    return function
