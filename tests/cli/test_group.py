"""`penstock group` and `penstock offsets` against a broker with real consumers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.cli.main import run
from penstock.testing import Broker

CONFIGS = {"offsets.topic.num.partitions": 3, "group.initial.rebalance.delay.ms": 0}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**CONFIGS, "penstock.metrics.listen": f"127.0.0.1:{free_port()}"}) as running:
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for index in range(30):
            producer.produce("orders", b"%d" % index, partition=index % 2)
        assert producer.flush(10) == 0
        yield running


@contextmanager
def member(broker: Broker, group: str, **configs: object) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": "cook",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
    )
    consumer.subscribe(["orders"])
    for _ in range(200):
        if consumer.poll(0.1) is not None:
            break
    yield consumer
    consumer.close()


def commit(broker: Broker, group: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    wanted = [TopicPartition("orders", index, offset) for index, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


class Penstock:
    """Runs a command line; what it printed is kept."""

    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker = broker
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        self._capsys.readouterr()
        status = run([*arguments, "--bootstrap", self._broker.bootstrap_servers])
        self.out, self.err = self._capsys.readouterr()
        return status

    def rows(self) -> list[list[str]]:
        return [re.split(r"\s{2,}", line.strip()) for line in self.out.splitlines()]


@pytest.fixture
def penstock(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Penstock:
    return Penstock(broker, capsys)


def test_groups_are_listed_with_type_and_state(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "simple", 1)
    with member(broker, "readers", group_protocol="consumer"):
        assert penstock("group", "list") == 0
        assert ["readers", "Consumer", "consumer", "Stable"] in penstock.rows()
        assert penstock("group", "list", "--state", "Empty", "--json") == 0
        assert {"group": "simple", "type": "classic", "state": "Empty"} in json.loads(penstock.out)


@pytest.mark.parametrize("configs", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_describe_shows_lag_and_owner_in_kafkas_columns(
    broker: Broker, penstock: Penstock, configs: dict[str, object], request: pytest.FixtureRequest
) -> None:
    group = f"readers-{request.node.callspec.id}"
    commit(broker, group, 5)
    with member(broker, group, **configs):
        assert penstock("group", "describe", group) == 0
        header, first, second = penstock.rows()
        assert header == [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ]
        assert first[:6] == [group, "orders", "0", "5", "15", "10"]
        assert first[7:] == ["/127.0.0.1", "cook"]
        assert second[:6] == [group, "orders", "1", "-", "15", "-"]
        assert penstock("group", "members", group, "--verbose") == 0
        assert penstock.rows()[1][5] == "2"
        assert "orders:0,1" in penstock.out


def test_a_group_without_members_is_said_to_have_none(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "left", 3, 4)
    assert penstock("group", "describe", "left") == 0
    assert "has no active members" in penstock.err
    assert [row[3:6] for row in penstock.rows()[1:]] == [["3", "15", "12"], ["4", "15", "11"]]
    assert penstock("group", "describe", "left", "--json") == 0
    (fields,) = json.loads(penstock.out)
    assert fields["partitions"][0]["lag"] == 12
    assert fields["waits_for"] == []


def test_a_stuck_group_says_whom_it_waits_for(broker: Broker, penstock: Penstock) -> None:
    """One member has stopped polling, so it does not rejoin when another one comes."""
    with member(broker, "stuck", client_id="sleeper", session_timeout_ms=60_000):
        late = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "stuck", "client.id": "late"})
        late.subscribe(["orders"])
        for _ in range(100):
            late.poll(0.1)
            assert penstock("group", "describe", "stuck") == 0
            if "Waiting for sleeper" in penstock.err:
                break
        assert "is PreparingRebalance" in penstock.err
        assert re.search(r"Waiting for sleeper-\S+ \(sleeper at 127\.0\.0\.1\) to rejoin, for \d+ s", penstock.err)
        late.close()


def test_resets_are_dry_runs_until_execute(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "reset", 5, 5)
    arguments = ["group", "reset-offsets", "reset", "--all-topics", "--to-latest"]
    assert penstock(*arguments) == 0
    assert penstock.rows() == [
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        ["reset", "orders", "0", "15"],
        ["reset", "orders", "1", "15"],
    ]
    assert "Nothing was changed" in penstock.err
    assert penstock("group", "describe", "reset") == 0
    assert [row[3] for row in penstock.rows()[1:]] == ["5", "5"]
    assert penstock(*arguments, "--execute") == 0
    assert penstock("group", "describe", "reset") == 0
    assert [row[3] for row in penstock.rows()[1:]] == ["15", "15"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], ["0", "0"]),
        (["--to-offset", "7"], ["7", "7"]),
        (["--to-offset", "700"], ["15", "15"]),
        (["--shift-by", "-3"], ["2", "2"]),
        (["--shift-by", "3"], ["8", "8"]),
        (["--to-current"], ["5", "5"]),
        (["--to-datetime", "2020-01-01T00:00:00"], ["0", "0"]),
        (["--by-duration", "PT1H"], ["0", "0"]),
        (["--by-duration", "PT0S"], ["15", "15"]),
    ],
)
def test_where_a_reset_can_go(broker: Broker, penstock: Penstock, options: list[str], expected: list[str]) -> None:
    commit(broker, "where", 5, 5)
    assert penstock("group", "reset-offsets", "where", "--topic", "orders", *options) == 0
    assert [row[3] for row in penstock.rows()[1:]] == expected


def test_a_reset_of_some_partitions(broker: Broker, penstock: Penstock) -> None:
    assert penstock("group", "reset-offsets", "new", "--topic", "orders:1", "--to-earliest", "--execute") == 0
    assert penstock("group", "describe", "new") == 0
    assert [row[2:4] for row in penstock.rows()[1:]] == [["1", "0"]]


def test_a_group_with_members_is_not_reset(broker: Broker, penstock: Penstock) -> None:
    with member(broker, "busy"):
        assert penstock("group", "reset-offsets", "busy", "--topic", "orders", "--to-earliest", "--execute") == 1
        assert "active members" in penstock.err
        assert penstock("group", "delete", "busy") == 1
        assert "busy" in penstock.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to-earliest"],
        ["--topic", "orders"],
        ["--topic", "orders", "--to-earliest", "--to-latest"],
        ["--topic", "orders", "--all-topics", "--to-earliest"],
        ["--topic", "orders:x", "--to-earliest"],
        ["--topic", "orders", "--by-duration", "soon"],
        ["--topic", "orders", "--to-datetime", "soon"],
    ],
)
def test_a_reset_that_says_too_little_or_too_much_is_a_usage_error(penstock: Penstock, arguments: list[str]) -> None:
    assert penstock("group", "reset-offsets", "group", *arguments) == 2


def test_deleting(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "old", 1)
    assert penstock("group", "delete", "old") == 0
    assert "('old') was successful" in penstock.err
    assert penstock("group", "delete", "old") == 1


def test_an_unknown_group_names_the_next_command(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "billing", 1)
    assert penstock("group", "describe", "biling") == 1
    assert "Did you mean:       billing" in penstock.err


def test_offsets_dump_prints_the_records_decoded(broker: Broker, penstock: Penstock) -> None:
    commit(broker, "dumped", 9)
    assert penstock("offsets", "dump", "--group", "dumped", "--json") == 0
    (record,) = [json.loads(line) for line in penstock.out.splitlines()]
    assert record["type"] == "OffsetCommit"
    assert record["key"] == {"group": "dumped", "topic": "orders", "partition": 0}
    assert record["value"]["offset"] == 9
    assert penstock("group", "delete", "dumped") == 0
    assert penstock("offsets", "dump", "--group", "dumped") == 0
    assert "deleted" in penstock.out.splitlines()[-1]
    assert penstock("offsets", "dump", "--partition", "99") == 1
