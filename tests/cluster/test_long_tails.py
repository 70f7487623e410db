"""A broker comes to lead partitions of which a lot is in PostgreSQL: it needs little memory and keeps its lease."""

from __future__ import annotations

from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Producer

from penstock.client.sync import Admin
from tests.cluster.members import SECONDS, Members, until
from tests.postgres import PostgresServer

PARTITIONS = 8
MEGABYTES = 600
RECORD_BYTES = 100_000
MEMORY_BYTES = 250 << 20


@pytest.mark.long
def test_what_a_take_over_reads_needs_neither_memory_nor_the_lease(
    tmp_path: Path, postgres: PostgresServer, capfd: pytest.CaptureFixture[str]
) -> None:
    with Members(tmp_path, postgres, count=1, lease_ms=6000) as members:
        (broker,) = members.brokers.values()
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic("t", PARTITIONS)
        until(lambda: members.leaders("t"))
        produce(members.bootstrap)
        broker.kill()
        count = MEGABYTES * 1_000_000 // RECORD_BYTES // PARTITIONS
        repeat(members, postgres, count)
        capfd.readouterr()
        broker.start()
        produce(members.bootstrap)
        assert psutil.Process(broker.pid).memory_info().rss < MEMORY_BYTES
        peak = next(line for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines() if "VmHWM" in line)
        assert int(peak.split()[1]) * 1024 < MEMORY_BYTES
        assert "is over" not in capfd.readouterr().err


def produce(bootstrap: str) -> None:
    """A record to each partition, one after the other, so that each goes into PostgreSQL."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": SECONDS * 1000})
    for partition in range(PARTITIONS):
        producer.produce(
            "t", bytes(RECORD_BYTES), partition=partition, on_delivery=lambda error, _: failures.append(error)
        )
        producer.flush(SECONDS)
    assert failures == [None] * PARTITIONS


def repeat(members: Members, postgres: PostgresServer, count: int) -> None:
    """What a day of such records leaves behind if no segment is ever stored: the same batch at the next offsets."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        schema = members.cluster.split("schema=")[1]
        connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", (schema,))
        rows = connection.execute(
            "SELECT topic_id, partition_index, data FROM extent JOIN topic USING (topic_id) WHERE name = 't'"
        ).fetchall()
        copy = (
            "COPY extent (topic_id, partition_index, base_offset, end_offset, position, size, data) FROM STDIN BINARY"
        )
        with connection.cursor() as cursor, cursor.copy(copy) as rows_to:
            rows_to.set_types(["bytea", "int4", "int8", "int8", "int8", "int8", "bytea"])
            for topic_id, index, data in rows:
                for offset in range(1, count + 1):
                    batch = offset.to_bytes(8, "big") + data[8:]
                    rows_to.write_row((topic_id, index, offset, offset + 1, 0, len(batch), batch))
        connection.execute("UPDATE partition SET end_offset = %s WHERE topic_id = %s", (count + 1, rows[0][0]))
