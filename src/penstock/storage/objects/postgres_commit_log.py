"""The commit log in PostgreSQL: guarded changes, each of them one statement.

**One autocommitted statement, never BEGIN … COMMIT.** A broker that is stopped inside a transaction would hold row
locks and block those who take over from it. Rows are locked in the order of their keys, so brokers that commit for the
same partitions wait for each other instead of deadlocking.

**Arrays, not temporary tables**, which would bloat PostgreSQL's own catalog. No NOTIFY, which takes a global lock.

Commits have a connection of their own, so that a long read for a take-over never delays them. Statements have no
timeout in the server: it would end a wait for synchronous standbys as if they had confirmed. The wait for an answer is
bounded on this side by whoever makes the connections.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

import psycopg

from penstock.guard import SelfExplanatory
from penstock.log.errors import StorageError
from penstock.storage.objects.commit_log import (
    CommitLogAway,
    Extent,
    FencedWriter,
    Layout,
    Outcome,
    PartitionKey,
    PartitionState,
    SegmentEntry,
    StoredObject,
    Tail,
    Usage,
    outcome_of,
)

# The row as it was under the lock is what tells the outcome; the guards are looked at once more by the UPDATE.
_COMMIT = """
WITH wanted AS (
    SELECT * FROM unnest(
        %b::bytea[], %b::integer[], %b::integer[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
        %b::boolean[], %b::bytea[], %b::boolean[]
    ) AS w (topic_id, partition_index, epoch, base, new_end, position, size, is_inline, data, begins)
), locked AS (
    SELECT p.topic_id, p.partition_index, p.leader, p.leader_epoch, p.log_start_offset, p.end_offset
    FROM partition p JOIN wanted USING (topic_id, partition_index)
    ORDER BY p.topic_id, p.partition_index FOR UPDATE OF p
), moved AS (
    UPDATE partition p SET end_offset = w.new_end
    FROM locked l JOIN wanted w USING (topic_id, partition_index)
    WHERE p.topic_id = l.topic_id AND p.partition_index = l.partition_index
        AND l.leader_epoch = w.epoch AND l.end_offset = w.base
        AND p.leader_epoch = w.epoch AND p.end_offset = w.base
    RETURNING w.topic_id, w.partition_index, w.epoch, w.base, w.new_end, w.position, w.size, w.is_inline, w.data,
        w.begins
), stored AS (
    INSERT INTO stored_object (object_key, size)
    SELECT %t::text, %b::bigint WHERE EXISTS (SELECT FROM moved WHERE NOT is_inline)
    ON CONFLICT (object_key) DO NOTHING
), placed AS (
    INSERT INTO extent (topic_id, partition_index, base_offset, end_offset, object_key, position, size, data)
    SELECT topic_id, partition_index, base, new_end, CASE WHEN is_inline THEN NULL ELSE %t::text END, position, size,
        CASE WHEN is_inline THEN data END
    FROM moved
), begun AS (
    INSERT INTO epoch_start (topic_id, partition_index, leader_epoch, start_offset)
    SELECT topic_id, partition_index, epoch, base FROM moved WHERE begins ON CONFLICT DO NOTHING
)
SELECT * FROM locked
"""

_LEAD = """
INSERT INTO partition AS p (topic_id, partition_index, leader, leader_epoch, replicas)
SELECT w.topic_id, w.partition_index, %s, 0, ARRAY[%s::integer]
FROM unnest(%b::bytea[], %b::integer[]) AS w (topic_id, partition_index)
WHERE EXISTS (SELECT FROM topic WHERE topic.topic_id = w.topic_id)
ORDER BY 1, 2
ON CONFLICT (topic_id, partition_index) DO UPDATE
SET leader = excluded.leader, leader_epoch = p.leader_epoch + 1, replicas = excluded.replicas
RETURNING topic_id, partition_index, leader, leader_epoch, log_start_offset, end_offset
"""

_OF_PARTITIONS = """
JOIN unnest(%b::bytea[], %b::integer[]) AS w (topic_id, partition_index) USING (topic_id, partition_index)
"""

SEGMENT_COLUMNS = """base_offset, end_offset, object_key, log_size, index_size, time_index_size, txn_index_size,
    snapshot_size, first_timestamp, max_timestamp, max_timestamp_offset"""

_LOCKED = """
WITH locked AS (
    SELECT leader_epoch, end_offset FROM partition WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    FOR UPDATE
), mine AS (SELECT FROM locked WHERE leader_epoch = %(epoch)s AND %(end)s <= end_offset)
"""

_ADD_SEGMENT = (
    _LOCKED
    + f"""
, known AS (
    SELECT object_key FROM segment WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    AND end_offset > %(base)s
), stored AS (
    INSERT INTO stored_object (object_key, size) SELECT %(key)s, %(size)s
    WHERE EXISTS (SELECT FROM mine) AND NOT EXISTS (SELECT FROM known)
    ON CONFLICT (object_key) DO NOTHING
), placed AS (
    INSERT INTO segment (topic_id, partition_index, {SEGMENT_COLUMNS})
    SELECT %(topic_id)s, %(index)s, %(base)s, %(end)s, %(key)s, %(log_size)s, %(index_size)s, %(time_index_size)s,
        %(txn_index_size)s, %(snapshot_size)s, %(first_timestamp)s, %(max_timestamp)s, %(max_timestamp_offset)s
    WHERE EXISTS (SELECT FROM mine) AND NOT EXISTS (SELECT FROM known)
), covered AS (
    DELETE FROM extent WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    AND end_offset > %(base)s AND end_offset <= %(end)s
    AND EXISTS (SELECT FROM mine) AND NOT EXISTS (SELECT FROM known WHERE object_key <> %(key)s)
)
SELECT leader_epoch, end_offset, ARRAY(SELECT object_key FROM known) FROM locked
"""
)

# The rows that are replaced are locked and counted: they must be exactly those that the leader knows.
_REPLACE_SEGMENTS = (
    _LOCKED
    + """
, found AS (
    SELECT object_key FROM segment WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    AND object_key = ANY(%(replaced)s) FOR UPDATE
), whole AS (
    SELECT FROM mine WHERE (SELECT count(*) FROM found) = cardinality(%(replaced)s::text[])
), stored AS (
    INSERT INTO stored_object (object_key, size) SELECT %(key)s, %(size)s FROM whole
    ON CONFLICT (object_key) DO NOTHING
), gone AS (
    DELETE FROM segment WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    AND object_key = ANY(%(replaced)s) AND base_offset <> %(base)s AND EXISTS (SELECT FROM whole)
), placed AS (
    UPDATE segment SET end_offset = %(end)s, object_key = %(key)s, log_size = %(log_size)s,
        index_size = %(index_size)s, time_index_size = %(time_index_size)s, txn_index_size = %(txn_index_size)s,
        snapshot_size = %(snapshot_size)s, first_timestamp = %(first_timestamp)s, max_timestamp = %(max_timestamp)s,
        max_timestamp_offset = %(max_timestamp_offset)s
    WHERE topic_id = %(topic_id)s AND partition_index = %(index)s AND base_offset = %(base)s
    AND object_key = ANY(%(replaced)s) AND EXISTS (SELECT FROM whole)
), covered AS (
    DELETE FROM extent WHERE topic_id = %(topic_id)s AND partition_index = %(index)s
    AND end_offset > %(base)s AND end_offset <= %(end)s AND EXISTS (SELECT FROM whole)
)
SELECT leader_epoch, end_offset, (SELECT count(*) FROM found) = cardinality(%(replaced)s::text[]) OR EXISTS (
    SELECT FROM segment WHERE topic_id = %(topic_id)s AND partition_index = %(index)s AND object_key = %(key)s
) FROM locked
"""
)

_MOVE_START = (
    _LOCKED
    + """
, moved AS (
    UPDATE partition SET log_start_offset = greatest(log_start_offset, %(end)s)
    WHERE topic_id = %(topic_id)s AND partition_index = %(index)s AND EXISTS (SELECT FROM mine)
), segments AS (
    DELETE FROM segment WHERE topic_id = %(topic_id)s AND partition_index = %(index)s AND end_offset <= %(end)s
    AND EXISTS (SELECT FROM mine)
), extents AS (
    DELETE FROM extent WHERE topic_id = %(topic_id)s AND partition_index = %(index)s AND end_offset <= %(end)s
    AND EXISTS (SELECT FROM mine)
)
SELECT leader_epoch, end_offset FROM locked
"""
)

# Each topic is looked up once, however many rows it has.
_FORGET_DELETED = """
WITH RECURSIVE known AS (
    (SELECT topic_id FROM {table} ORDER BY topic_id LIMIT 1)
    UNION ALL
    SELECT (SELECT topic_id FROM {table} t WHERE t.topic_id > known.topic_id ORDER BY topic_id LIMIT 1)
    FROM known WHERE known.topic_id IS NOT NULL
), deleted AS (
    SELECT topic_id FROM known WHERE topic_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM topic WHERE topic.topic_id = known.topic_id)
)
DELETE FROM {table} t USING deleted WHERE t.topic_id = deleted.topic_id RETURNING 1
"""

# Some at a time, so that nobody waits long for the connection.
_MARK_UNREFERENCED = """
WITH looked_at AS (
    SELECT object_key FROM stored_object WHERE object_key > %(after)s ORDER BY object_key LIMIT 5000
), marked AS (
    UPDATE stored_object o SET marked_at = now() FROM looked_at
    WHERE o.object_key = looked_at.object_key AND o.marked_at IS NULL
        AND NOT EXISTS (SELECT FROM extent WHERE extent.object_key = o.object_key)
        AND NOT EXISTS (SELECT FROM segment WHERE segment.object_key = o.object_key)
    RETURNING 1
)
SELECT (SELECT count(*) FROM marked), (SELECT max(object_key) FROM looked_at)
"""

_TAKE_TURN = """
INSERT INTO turn AS t (task, until) VALUES (%(task)s, now() + make_interval(secs => %(seconds)s))
ON CONFLICT (task) DO UPDATE SET until = excluded.until WHERE t.until <= now() RETURNING 1
"""

_MARKED_MAX = 5000


class Connections(Protocol):
    """Makes connections to PostgreSQL in autocommit mode, and makes them anew after they were lost."""

    def connection(self) -> Any: ...

    def close(self) -> None: ...


class _Line:
    """A connection that several threads may want, one at a time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._prepared: Any = None

    def call(self, statement: str, parameters: Any = None, *, binary: bool = False) -> list[Any]:
        """Bytes that come as they are, in binary, cost a third of what their text costs."""
        with self._lock:
            try:
                connection = self._connections.connection()
                if connection is not self._prepared:
                    connection.execute("SET statement_timeout = 0")
                    connection.prepare_threshold = 2
                    self._prepared = connection
                cursor = connection.execute(statement, parameters, binary=binary)
                return cursor.fetchall() if cursor.description is not None else []
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                raise CommitLogAway(f"PostgreSQL does not take commits: {_one_line(error)}") from error
            except psycopg.Error as error:
                raise StorageError(f"PostgreSQL refuses a change of the commit log: {_one_line(error)}") from error
            except SelfExplanatory as error:
                raise CommitLogAway(str(error)) from error

    def close(self) -> None:
        with self._lock:
            self._connections.close()


class PostgresCommitLog:
    """See `commit_log.CommitLog`. The tables are there."""

    def __init__(self, new_connections: Callable[[], Connections]) -> None:
        self._commits = _Line(new_connections())
        self._others = _Line(new_connections())

    def lead(self, node_id: int, partitions: Collection[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        return _states(self._others.call(_LEAD, (node_id, node_id, *_columns(partitions))))

    def partitions(self) -> list[PartitionKey]:
        rows = self._others.call("SELECT topic_id, partition_index FROM partition ORDER BY 1, 2")
        return [PartitionKey(topic_id, index) for topic_id, index in rows]

    def states(self, partitions: Collection[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        statement = f"""
            SELECT topic_id, partition_index, leader, leader_epoch, log_start_offset, end_offset
            FROM partition {_OF_PARTITIONS}
        """
        return _states(self._others.call(statement, _columns(partitions)))

    def commit(self, stored: StoredObject | None, tails: Sequence[Tail]) -> list[Outcome]:
        key, size = stored if stored is not None else (None, 0)
        parameters = (
            [tail.partition.topic_id for tail in tails],
            [tail.partition.partition for tail in tails],
            [tail.leader_epoch for tail in tails],
            [tail.base_offset for tail in tails],
            [tail.end_offset for tail in tails],
            [tail.position for tail in tails],
            [tail.size for tail in tails],
            [tail.data is not None for tail in tails],
            [tail.data or b"" for tail in tails],
            [tail.begins_epoch for tail in tails],
            key,
            size,
            key,
        )
        states = _states(self._commits.call(_COMMIT, parameters))
        return [outcome_of(states.get(tail.partition), tail) for tail in tails]

    def layouts(self, partitions: Collection[PartitionKey]) -> dict[PartitionKey, Layout]:
        wanted = _columns(partitions)
        layouts = {key: Layout(state) for key, state in self.states(partitions).items()}
        for topic_id, index, epoch, start in self._others.call(
            f"""
            SELECT topic_id, partition_index, leader_epoch, start_offset FROM epoch_start {_OF_PARTITIONS}
            ORDER BY leader_epoch
            """,
            wanted,
        ):
            if (topic_id, index) in layouts:
                layouts[PartitionKey(topic_id, index)].epochs.append((epoch, start))
        for topic_id, index, *values in self._others.call(
            f"SELECT topic_id, partition_index, {SEGMENT_COLUMNS} FROM segment {_OF_PARTITIONS} ORDER BY base_offset",
            wanted,
        ):
            if (topic_id, index) in layouts:
                layouts[PartitionKey(topic_id, index)].segments.append(SegmentEntry(*values))
        for topic_id, index, *values in self._others.call(
            f"""
            SELECT topic_id, partition_index, base_offset, end_offset, object_key, position, size
            FROM extent {_OF_PARTITIONS} ORDER BY base_offset
            """,
            wanted,
        ):
            layout = layouts.get(PartitionKey(topic_id, index))
            if layout is not None and (not layout.segments or values[1] > layout.segments[-1].end_offset):
                layout.extents.append(Extent(*values))
        return layouts

    def read_inline(self, partition: PartitionKey, first: int, last: int) -> list[tuple[int, bytes]]:
        statement = """
            SELECT base_offset, data FROM extent WHERE topic_id = %s AND partition_index = %s
            AND base_offset BETWEEN %s AND %s AND object_key IS NULL ORDER BY base_offset
        """
        return self._others.call(statement, (*partition, first, last), binary=True)

    # Changes of one partition

    def add_segment(self, partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> Outcome:
        rows = self._others.call(_ADD_SEGMENT, _segment_values(partition, leader_epoch, segment))
        outcome = _guarded(rows, leader_epoch, segment.end_offset)
        if outcome is Outcome.COMMITTED and any(key != segment.object_key for key in rows[0][2]):
            return Outcome.DIVERGED
        return outcome

    def replace_segments(
        self, partition: PartitionKey, leader_epoch: int, replaced: Sequence[str], segment: SegmentEntry
    ) -> Outcome:
        values = _segment_values(partition, leader_epoch, segment)
        rows = self._others.call(_REPLACE_SEGMENTS, {**values, "replaced": list(replaced)})
        outcome = _guarded(rows, leader_epoch, segment.end_offset)
        return Outcome.DIVERGED if outcome is Outcome.COMMITTED and not rows[0][2] else outcome

    def move_start(self, partition: PartitionKey, leader_epoch: int, log_start_offset: int) -> Outcome:
        values = {
            "topic_id": partition.topic_id,
            "index": partition.partition,
            "epoch": leader_epoch,
            "end": log_start_offset,
        }
        return _guarded(self._others.call(_MOVE_START, values), leader_epoch, log_start_offset)

    # Objects

    def forget_deleted(self) -> int:
        tables = ("extent", "segment", "epoch_start")
        return sum(len(self._others.call(_FORGET_DELETED.format(table=table))) for table in tables)

    def mark_unreferenced(self) -> int:
        count, after = 0, ""
        while after is not None:
            ((marked, after),) = self._others.call(_MARK_UNREFERENCED, {"after": after})
            count += marked
        return count

    def marked(self, grace_seconds: float) -> list[str]:
        rows = self._others.call(
            "SELECT object_key FROM stored_object WHERE marked_at <= now() - make_interval(secs => %s) LIMIT %s",
            (grace_seconds, _MARKED_MAX),
        )
        return [key for (key,) in rows]

    def forget_objects(self, keys: Iterable[str]) -> None:
        self._others.call(
            "DELETE FROM stored_object WHERE object_key = ANY(%s) AND marked_at IS NOT NULL", (list(keys),)
        )

    def known_among(self, keys: Collection[str]) -> set[str]:
        rows = self._others.call("SELECT object_key FROM stored_object WHERE object_key = ANY(%s)", (list(keys),))
        return {key for (key,) in rows}

    def known_objects(self) -> dict[str, int]:
        return dict(self._others.call("SELECT object_key, size FROM stored_object"))

    def broker_epochs(self) -> dict[int, int]:
        if not self._others.call("SELECT to_regclass('broker')::text")[0][0]:
            return {}
        return dict(self._others.call("SELECT node_id, epoch FROM broker"))

    def take_turn(self, task: str, seconds: float) -> bool:
        return bool(self._others.call(_TAKE_TURN, {"task": task, "seconds": seconds}))

    def fenced_writers(self) -> dict[str, FencedWriter]:
        rows = self._others.call(
            """
            SELECT folder, extract(epoch FROM now() - noted_at)::float8,
                extract(epoch FROM now() - listed_at)::float8, is_done
            FROM fenced_writer
            """
        )
        return {folder: FencedWriter(*values) for folder, *values in rows}

    def note_fenced(self, folders: Collection[str]) -> None:
        self._others.call(
            "INSERT INTO fenced_writer (folder) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING", (list(folders),)
        )

    def note_listed(self, folder: str, is_done: bool) -> None:
        self._others.call(
            "UPDATE fenced_writer SET listed_at = now(), is_done = %s WHERE folder = %s", (is_done, folder)
        )

    def forget_writers(self, folders: Collection[str]) -> None:
        self._others.call("DELETE FROM fenced_writer WHERE folder = ANY(%s)", (list(folders),))

    def usage(self) -> Usage:
        (row,) = self._others.call(
            """
            SELECT (SELECT count(*) FROM stored_object), (SELECT coalesce(sum(size), 0)::bigint FROM stored_object),
                (SELECT count(*) FROM extent), (SELECT coalesce(sum(length(data)), 0)::bigint FROM extent),
                (SELECT count(*) FROM segment), (SELECT count(*) FROM stored_object WHERE marked_at IS NOT NULL)
            """
        )
        return Usage(*row)

    def close(self) -> None:
        self._commits.close()
        self._others.close()


def _columns(partitions: Collection[PartitionKey]) -> tuple[list[bytes], list[int]]:
    return [key.topic_id for key in partitions], [key.partition for key in partitions]


def _states(rows: list[Any]) -> dict[PartitionKey, PartitionState]:
    return {PartitionKey(topic_id, index): PartitionState(*values) for topic_id, index, *values in rows}


def _segment_values(partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> dict[str, Any]:
    return {
        "topic_id": partition.topic_id,
        "index": partition.partition,
        "epoch": leader_epoch,
        "base": segment.base_offset,
        "end": segment.end_offset,
        "key": segment.object_key,
        "size": segment.size,
        "log_size": segment.log_size,
        "index_size": segment.index_size,
        "time_index_size": segment.time_index_size,
        "txn_index_size": segment.txn_index_size,
        "snapshot_size": segment.snapshot_size,
        "first_timestamp": segment.first_timestamp,
        "max_timestamp": segment.max_timestamp,
        "max_timestamp_offset": segment.max_timestamp_offset,
    }


def _guarded(rows: list[Any], leader_epoch: int, end_offset: int) -> Outcome:
    if not rows:
        return Outcome.DELETED
    if rows[0][0] != leader_epoch:
        return Outcome.FENCED
    return Outcome.COMMITTED if end_offset <= rows[0][1] else Outcome.DIVERGED


def _one_line(error: BaseException) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
