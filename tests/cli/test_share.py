"""`penstock share` against a broker with a real share consumer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer, ShareConsumer

from penstock.cli.main import run
from penstock.testing import Broker
from tests.broker.share.share_client import Wire, set_group_configs


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}) as it:
        it.create_topic("jobs", 2)
        with Wire(it) as wire:
            set_group_configs(wire, "workers", share_auto_offset_reset="earliest")
        producer = Producer({"bootstrap.servers": it.bootstrap_servers})
        for i in range(30):
            producer.produce("jobs", b"%d" % i, partition=i % 2)
        assert producer.flush(10) == 0
        yield it


def consumer(broker: Broker) -> ShareConsumer:
    made = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "workers",
            "client.id": "cook",
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 5,
        }
    )
    made.subscribe(["jobs"])
    return made


@pytest.fixture(scope="module")
def worker(broker: Broker) -> Iterator[ShareConsumer]:
    """A consumer that holds records and has answered for one of them."""
    made = consumer(broker)
    held: list[object] = []
    for _ in range(40):
        held += [message for message in made.poll(0.5) if message.error() is None]
        if held:
            break
    assert held
    yield made
    made.close()


def penstock(broker: Broker, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["share", *arguments, "--bootstrap", broker.bootstrap_servers])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_list_shows_groups_and_their_states(
    broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = penstock(broker, capsys, "list")
    assert status == 0
    assert words(out) == [["GROUP", "STATE"], ["workers", "Stable"]]


def test_describe_has_kafkas_columns(broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = penstock(broker, capsys, "describe", "workers")
    assert words(out)[0] == ["GROUP", "COORDINATOR", "(ID)", "STATE", "#MEMBERS"]
    assert words(out)[1][0] == "workers"
    assert words(out)[1][-2:] == ["Stable", "1"]


def test_members_shows_who_has_what(broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = penstock(broker, capsys, "members", "workers")
    assert words(out)[0] == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert words(out)[1][2:] == ["/127.0.0.1", "cook", "2", "jobs:0,1"]


def test_offsets_shows_start_and_lag(broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = penstock(broker, capsys, "offsets", "workers")
    assert words(out) == [
        ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"],
        ["workers", "jobs", "0", "0", "15"],
        ["workers", "jobs", "1", "0", "15"],
    ]


def test_inspect_draws_each_record_in_flight(
    broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = penstock(broker, capsys, "inspect", "workers")
    assert status == 0, err
    assert "#####" in out
    assert "HOLDER" in out
    assert "1/5" in out
    _, out, _ = penstock(broker, capsys, "inspect", "workers", "--json")
    records = [record for window in json.loads(out) for record in window["records"]]
    assert {record["state"] for record in records} == {"ACQUIRED"}
    assert all(0 < record["remainingMs"] <= 30_000 and record["memberId"] for record in records)


def test_a_group_that_does_not_exist_is_answered_with_the_nearest_one(
    broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = penstock(broker, capsys, "offsets", "worker")
    assert status == 1
    assert "Did you mean:       workers" in err


def test_a_group_with_members_is_neither_reset_nor_deleted(
    broker: Broker, worker: ShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = penstock(broker, capsys, "delete", "workers")
    assert (status, "workers" in err) == (1, True)
    status, _, _ = penstock(broker, capsys, "reset-offsets", "workers", "--all-topics", "--to-latest", "--execute")
    assert status == 1


def test_an_empty_group_is_reset_and_deleted(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reset-offsets", "idle", "--topic", "jobs:1", "--to-latest"]
    status, out, err = penstock(broker, capsys, *arguments)
    assert (status, words(out)) == (
        0,
        [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], ["idle", "jobs", "1", "15"]],
    )
    assert "--execute" in err
    assert penstock(broker, capsys, *arguments, "--execute")[0] == 0
    _, out, _ = penstock(broker, capsys, "offsets", "idle")
    assert words(out)[1:] == [["idle", "jobs", "1", "15", "0"]]
    assert penstock(broker, capsys, "delete-offsets", "idle", "--topic", "jobs")[0] == 0
    assert penstock(broker, capsys, "delete", "idle")[0] == 0
    assert "idle" not in penstock(broker, capsys, "list")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["reset-offsets", "g", "--to-latest"],
        ["reset-offsets", "g", "--all-topics"],
        ["reset-offsets", "g", "--topic", "jobs:x", "--to-latest"],
        ["reset-offsets", "g", "--topic", "jobs", "--to-datetime", "tomorrow"],
    ],
)
def test_wrong_command_lines_say_what_is_missing(
    broker: Broker, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert penstock(broker, capsys, *arguments)[0] == 2
