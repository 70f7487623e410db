"""Runs the tasks of a mirror's bulk copy on Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.mirror.bulk import Copied, Part, Settings, copy_parts, shares

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_RESULT = "topic STRING, partition INT, records LONG, bytes LONG"


class SparkTasks:
    """Raises SetupError where Spark or its Java is missing."""

    def __init__(self, master: str) -> None:
        from penstock.spark.session import check_versions, session

        check_versions()
        self._spark: SparkSession = session("penstock mirror", master)

    async def __call__(self, from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        try:
            return await asyncio.to_thread(self._run, from_, to, parts)
        finally:
            self._spark.stop()  # also ends the job of a mirror that is stopped

    def _run(self, from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        from penstock.spark.failures import reason

        slots = max(int(self._spark.sparkContext.defaultParallelism), 1)
        divided = shares(parts, slots)
        try:
            tasks = self._spark.range(0, len(divided), 1, len(divided))
            rows = tasks.mapInArrow(task_function(from_, to, divided), _RESULT).collect()
        except Exception as error:
            raise RuntimeError(reason(error)) from error
        named = {(part.topic, part.partition): part.tp for part in parts}
        return [Copied(named[row.topic, row.partition], row.records, row.bytes) for row in rows]


def task_function(
    from_: Settings, to: Settings, divided: Sequence[Sequence[Part]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs: the share of its number, and one row for each partition in it."""
    settings, shared = (dict(from_), dict(to)), [list(parts) for parts in divided]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = copy_parts(*settings, shared[number])
                columns = [
                    pa.array([each.tp.topic for each in done], pa.string()),
                    pa.array([each.tp.partition for each in done], pa.int32()),
                    pa.array([each.records for each in done], pa.int64()),
                    pa.array([each.bytes for each in done], pa.int64()),
                ]
                yield pa.RecordBatch.from_arrays(columns, names=["topic", "partition", "records", "bytes"])

    return run
