"""Kafka's own client and tools: what they do and see here is what they do and see at Apache Kafka."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import java_command, run_java_tool
from penstock.testing import Broker
from tests.transactions.wire_client import Producer, Wire, eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

DATA = Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "expected.json").read_text())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    wire = Wire(broker.port)
    yield wire
    wire.close()


def transactions_tool(broker: Broker, *arguments: str) -> str:
    done = run_java_tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers, *arguments
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(output: str) -> list[dict[str, str]]:
    header, *lines = [line.split() for line in output.splitlines() if line.strip()]
    return [dict(zip(header, line, strict=False)) for line in lines]


def test_the_java_producer_leaves_the_same_states_as_at_apache_kafka() -> None:
    """KIP-890 end to end: the program behind data/expected.json, run here."""
    with Broker() as broker:
        program = [*java_command(), str(DATA / "MakeTransactions.java"), broker.bootstrap_servers]
        done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    said = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    for transactional_id, (state, _, epoch, partitions) in EXPECTED["transactions"].items():
        ours = said["transactions"][transactional_id]
        assert (ours[0], ours[2], ours[3]) == (state, epoch, partitions), transactional_id
    for partition, expected in EXPECTED["orders"].items():
        ours = said["orders"][partition]
        assert (ours["lso"], ours["end"]) == (expected["lso"], expected["end"])
        assert sorted(each[1:] for each in ours["producers"]) == sorted(each[1:] for each in expected["producers"])


def test_the_transactions_tool_lists_and_describes(broker: Broker, wire: Wire) -> None:
    wire.create_topic("listed", 2)
    producer = Producer(wire, "listed-id").start()
    assert producer.write("listed", b"x", partition=1) == 0
    listed = {row["TransactionalId"]: row for row in rows(transactions_tool(broker, "list"))}
    assert listed["listed-id"]["TransactionState"] == "Ongoing"
    (described,) = rows(transactions_tool(broker, "describe", "--transactional-id", "listed-id"))
    assert described["ProducerId"] == str(producer.producer_id)
    assert described["TopicPartitions"] == "listed-1"
    (state,) = rows(
        transactions_tool(broker, "describe-producers", "--topic", "listed", "--partition", "1", "--broker-id", "1")
    )
    assert (state["ProducerId"], state["CurrentTransactionStartOffset"]) == (str(producer.producer_id), "0")
    assert producer.end(commit=True) == 0


def test_the_transactions_tool_aborts_a_hanging_transaction(broker: Broker, wire: Wire) -> None:
    wire.create_topic("hanging")
    producer = Producer(wire, "hanging-id").start()
    assert producer.write("hanging", b"x") == 0
    transactions_tool(broker, "abort", "--topic", "hanging", "--partition", "0", "--start-offset", "0")
    assert eventually(lambda: wire.fetch_partition("hanging").last_stable_offset, lambda offset: offset == 2) == 2
    assert wire.fetch("hanging") == []


def test_the_dump_tool_reads_the_coordinators_log() -> None:
    with Broker() as broker:
        wire = Wire(broker.port)
        wire.create_topic("dumped")
        producer = Producer(wire, "dumped-id").start()
        assert producer.write("dumped", b"x") == 0
        assert producer.end(commit=True) == 0
        assert eventually(producer.init, lambda code: code == 0) == 0  # not before the transaction is complete
        wire.close()
        (segment,) = [
            path for path in broker.data.glob("__transaction_state-*/*.log") if b"dumped-id" in path.read_bytes()
        ]
        done = run_java_tool(
            "org.apache.kafka.tools.DumpLogSegments",
            "--transaction-log-decoder",
            "--files",
            str(segment),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    states = [line.split('"transactionStatus":')[1][0] for line in done.stdout.splitlines() if "Status" in line]
    assert states == ["0", "1", "2", "4", "0"], done.stdout
    assert "dumped-id" in done.stdout


def test_the_transactions_tool_finds_nothing_hanging_after_an_ordinary_transaction(wire: Wire, broker: Broker) -> None:
    wire.create_topic("lost")
    producer = Producer(wire, "lost-id").start()
    assert producer.write("lost", b"x") == 0
    assert producer.end(commit=True) == 0
    assert eventually(producer.init, lambda code: code == 0) == 0
    hanging = rows(transactions_tool(broker, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0"))
    assert [row for row in hanging if row.get("Topic") == "lost"] == []
