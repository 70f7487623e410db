"""The format "penstock": `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`.

    spark.read.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders")

The driver turns options into ranges of offsets (`planning`), each task reads one range (`reading`). A batch query pins
its ranges at first use, so two actions on one DataFrame see the same records, and a task that is run again reads what
it read before.

In a streaming query Spark's checkpoint is the truth about progress. When Spark asks for the latest offset with
`start`, everything before `start` is in its commit log; that is when `start` is committed to a consumer group, so that
lag shows in every Kafka tool. Nothing ever reads that commit back: if it fails, the query goes on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.client.types import TopicPartition
from penstock.spark.fetching import FetchSettings
from penstock.spark.options import SourceOptions, parse_options
from penstock.spark.ranges import JsonOffsets, OffsetRange, Offsets, from_json, limit_rows, to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from penstock.spark.planning import ClusterView
    from penstock.spark.progress import ProgressCommitter

_SETTLE_S = 2.0

_log = logging.getLogger("penstock.spark")


class PenstockSource(DataSource):
    """The data source behind `format("penstock")`, which registers itself; docs/how-to/spark.md lists its options."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        # Whether this is a streaming query is not known here; the columns do not depend on it.
        return parse_options(dict(self.options), streaming=True).schema if self._streams() else self._options().schema

    def _streams(self) -> bool:
        return "share.group" in {name.lower() for name in self.options}

    def _options(self) -> SourceOptions:
        bounds = ("starting", "ending")
        plain = {name: value for name, value in self.options.items() if not name.lower().startswith(bounds)}
        return parse_options(plain)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(parse_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = parse_options(dict(self.options), streaming=True)
        if options.share_group:
            from penstock.spark.share_source import ShareStreamReader

            return ShareStreamReader(options)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from penstock.spark.sink import BatchWriter, parse_sink_options

        return BatchWriter(parse_sink_options(dict(self.options), schema.fieldNames()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from penstock.spark.sink import StreamWriter, parse_sink_options

        return StreamWriter(parse_sink_options(dict(self.options), schema.fieldNames()))


@dataclass
class RangePartition(InputPartition):
    """What a task gets."""

    wanted: OffsetRange


class _Reading:
    """The part that runs in tasks, the same for both kinds of query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        from penstock.spark.reading import read_range

        options = self._options
        wanted = getattr(partition, "wanted", None)
        if wanted is None:  # Spark makes up a partition where there is none
            return iter(())
        return read_range(
            wanted,
            settings_of(options),
            options.columns,
            batch_rows=options.batch_rows,
            check_crcs=options.check_crcs,
        )

    def _split(self, ranges: list[OffsetRange]) -> list[RangePartition]:
        from penstock.spark.planning import tasks_of

        return [RangePartition(piece) for piece in tasks_of(ranges, self._options)]


def settings_of(options: SourceOptions) -> FetchSettings:
    return FetchSettings(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        isolation=options.isolation,
        fetch_bytes=options.fetch_bytes,
        poll_timeout_ms=options.poll_timeout_ms,
        fail_on_data_loss=options.fail_on_data_loss,
        security=options.security,
    )


class BatchReader(_Reading, DataSourceReader):  # type: ignore[misc]
    def partitions(self) -> list[RangePartition]:
        from penstock.spark.planning import ClusterView, plan_batch

        options = self._options
        with ClusterView(options.bootstrap_servers, options.client_id, security=options.security) as view:
            return self._split(plan_batch(view, self._options))


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Lives in one process for as long as the query runs; copies of it travel to tasks, without the connection."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._view: ClusterView | None = None
        self._target: Offsets | None = None
        self._latest: Offsets = {}
        self._committed: Offsets = {}
        self._progress: ProgressCommitter | None = None
        self._triggered_at = time.monotonic()
        self._subscribed: list[TopicPartition] = []
        self._looked_at = -math.inf

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options}  # what a task needs

    def _cluster(self) -> ClusterView:
        from penstock.spark.planning import ClusterView

        if self._view is None:
            options = self._options
            self._view = ClusterView(options.bootstrap_servers, options.client_id, security=options.security)
        return self._view

    # Where the stream is

    def initialOffset(self) -> JsonOffsets:  # noqa: N802
        from penstock.spark.planning import resolve

        view = self._cluster()
        partitions = view.partitions(self._options.subscription)
        return to_json(resolve(view, partitions, self._options.starting, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows) if rows is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._newest()

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        return to_json(self._latest) if self._latest else None

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        begun = from_json(start)
        self._commit_progress(begun)
        newest = self._newest() if self._target is None else self._target
        self._latest = newest
        self._check_gone(begun, newest)
        # A query that was restarted may have got beyond a target that was pinned before.
        reachable = {tp: max(end, begun.get(tp, 0)) for tp, end in newest.items()}
        fresh = self._cluster().earliest([tp for tp in reachable if tp not in begun])
        origin = {**fresh, **begun}
        waiting = sum(end - origin[tp] for tp, end in reachable.items())
        if self._holds_back(waiting):
            return start
        self._triggered_at = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            reachable = limit_rows(origin, reachable, limit.max_rows)
        if reachable == begun:
            self._settle_progress()
        return to_json(reachable)

    def _newest(self) -> Offsets:
        # Asking which partitions there are for every micro-batch would cost more than asking where they end.
        if (time.monotonic() - self._looked_at) * 1000 >= self._options.metadata_ttl_ms:
            self._subscribed = self._cluster().partitions(self._options.subscription)
            self._looked_at = time.monotonic()
        return self._cluster().latest(self._subscribed, self._options.isolation)

    def _holds_back(self, waiting: int) -> bool:
        """Whether to wait for more (`minOffsetsPerTrigger`), which availableNow never does."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or waiting >= least:
            return False
        return (time.monotonic() - self._triggered_at) * 1000 < self._options.max_trigger_delay_ms

    def _check_gone(self, begun: Offsets, newest: Offsets) -> None:
        from penstock.spark.planning import DataLoss

        for tp, offset in begun.items():
            end = newest.get(tp)
            if end is None:
                lost = f"partition {tp} is gone; the query stood at offset {offset}"
            elif end < offset and self._target is None:
                lost = f"partition {tp} ends at offset {end}, but the query has read up to {offset}"
            else:
                continue
            if self._options.fail_on_data_loss:
                raise DataLoss(f"{lost}. Was the topic deleted? failOnDataLoss=false goes on without it")
            _log.warning("%s", lost)

    def _commit_progress(self, done: Offsets) -> None:
        group = self._options.group_id
        if not group or not done or done == self._committed:
            return
        if self._progress is None:
            from penstock.spark.progress import ProgressCommitter

            options = self._options
            self._progress = ProgressCommitter(group, options.bootstrap_servers, options.client_id, options.security)
        self._progress.commit(done)
        self._committed = done

    def _settle_progress(self) -> None:
        """Wait for the commit where it holds nothing up. After availableNow's last look there is no other chance."""
        if self._progress is not None:
            self._progress.settle(_SETTLE_S)

    # What a micro-batch reads

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[RangePartition]:
        view = self._cluster()
        begun, until = from_json(start), from_json(end)
        if not self._subscribed:
            self._subscribed = view.partitions(self._options.subscription)  # learns the ids of the topics
        fresh = view.earliest([tp for tp in until if tp not in begun])
        ranges = [
            OffsetRange(tp.topic, tp.partition, begun.get(tp, fresh.get(tp, 0)), last, view.topic_id(tp.topic))
            for tp, last in sorted(until.items())
        ]
        return self._split([piece for piece in ranges if self._exists(piece)])  # the tasks see whether all is there

    def _exists(self, piece: OffsetRange) -> bool:
        from penstock.spark.planning import DataLoss

        topic = self._cluster().cluster.metadata.topics.get(piece.topic)
        if topic is not None and piece.partition in topic.partitions:
            return True
        if self._options.fail_on_data_loss and piece.size:
            raise DataLoss(f"{piece} was to be read, but there is no such partition any more")
        return False

    def commit(self, end: JsonOffsets) -> None:
        """Comes a batch late, and never for the last one; `latestOffset` does its work."""

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None
        if self._view is not None:
            self._view.close()
            self._view = None
