"""`penstock txn` against a broker with transactions in several states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from penstock.cli.main import run
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Producer, Wire


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def penstock(broker_address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in this process."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker_address)

    def command(*arguments: str) -> Done:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return command


@pytest.fixture
def wire(broker_address: str) -> Iterator[Wire]:
    wire = Wire(int(broker_address.rpartition(":")[2]))
    yield wire
    wire.close()


def open_transaction(wire: Wire, name: str) -> Producer:
    """A transaction of `name` that is open in partition 1 of a topic of the same name."""
    wire.create_topic(name, 2)
    producer = Producer(wire, name).start()
    assert producer.write(name, b"x", partition=1) == ErrorCode.NONE
    return producer


def test_list_shows_the_states_and_filters_them(penstock: Run, wire: Wire) -> None:
    producer = open_transaction(wire, "txn-list")
    Producer(wire, "txn-idle").start()
    done = penstock("txn", "list")
    assert done.returncode == 0, done.stderr
    header, *lines = [line.split() for line in done.stdout.splitlines()]
    assert header == ["TransactionalId", "ProducerId", "TransactionState"]
    assert ["txn-list", str(producer.producer_id), "Ongoing"] in lines
    assert [line[0] for line in lines if line[2] == "Empty"] == ["txn-idle"]
    filtered = penstock("txn", "list", "--state", "ongoing", "--pattern", "txn-.*", "--json")
    assert json.loads(filtered.stdout) == [
        {"transactional_id": "txn-list", "producer_id": producer.producer_id, "state": "Ongoing"}
    ]
    assert "No transaction matches." in penstock("txn", "list", "--longer-than", "3600000", "--state", "Ongoing").stderr
    assert producer.end(commit=True) == ErrorCode.NONE


def test_describe_shows_the_partitions(penstock: Run, wire: Wire) -> None:
    producer = open_transaction(wire, "txn-described")
    described = json.loads(penstock("txn", "describe", "txn-described", "--json").stdout)
    assert (described["state"], described["producer_id"]) == ("Ongoing", producer.producer_id)
    assert described["partitions"] == ["txn-described-1"]
    assert described["duration_ms"] >= 0
    assert "txn-described-1" in penstock("txn", "describe", "txn-described").stdout
    assert producer.end(commit=True) == ErrorCode.NONE


def test_an_unknown_id_is_answered_with_the_nearest_one(penstock: Run, wire: Wire) -> None:
    Producer(wire, "txn-known").start()
    done = penstock("txn", "describe", "txn-knwon")
    assert done.returncode == 1
    assert "Did you mean:       txn-known" in done.stderr


def test_abort_by_id_fences_the_producer(penstock: Run, wire: Wire) -> None:
    producer = open_transaction(wire, "txn-aborted")
    done = penstock("txn", "abort", "txn-aborted")
    assert done.returncode == 0, done.stderr
    assert producer.write("txn-aborted", b"late", partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert wire.fetch("txn-aborted", 1) == []
    again = penstock("txn", "abort", "txn-aborted")
    assert again.returncode == 1
    assert "no open transaction" in again.stderr


def test_abort_by_offset_writes_a_marker(penstock: Run, wire: Wire) -> None:
    open_transaction(wire, "txn-hanging")
    done = penstock("txn", "abort", "--topic", "txn-hanging", "--partition", "1", "--start-offset", "0")
    assert done.returncode == 0, done.stderr
    assert wire.fetch_partition("txn-hanging", 1).last_stable_offset == 2
    wrong = penstock("txn", "abort", "--topic", "txn-hanging", "--partition", "1", "--start-offset", "0")
    assert wrong.returncode == 1
    assert "no transaction that began at offset 0" in wrong.stderr


def test_abort_wants_one_way_of_saying_which(penstock: Run) -> None:
    assert penstock("txn", "abort").returncode == 2
    assert penstock("txn", "abort", "x", "--topic", "t").returncode == 2
