"""`penstock share create` against a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from penstock.cli.main import run
from penstock.client import Producer, ShareConsumer
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": "false"}) as it:
        it.create_topic("jobs", 2)
        asyncio.run(produce(it, b"first", b"second", b"third"))
        yield it


async def produce(broker: Broker, *values: bytes) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            await producer.send_and_wait("jobs", value, partition=number % 2)


async def consume(broker: Broker, group: str, count: int) -> set[bytes]:
    """The first records that a new consumer of the group gets."""
    got: set[bytes] = set()
    async with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        consumer.subscribe(["jobs"])
        async with asyncio.timeout(30):
            while len(got) < count:
                got |= {record.value or b"" for record in await consumer.poll(timeout_ms=1000)}
    return got


def command(broker: Broker, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run([*arguments, "--bootstrap", broker.bootstrap_servers])
    out, err = capsys.readouterr()
    return status, out, err


def starts(broker: Broker, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[int]:
    status, out, err = command(broker, capsys, "share", "create", *arguments, "--json")
    assert status == 0, err
    return [row["offset"] for row in json.loads(out)]


def test_a_group_that_starts_at_the_beginning_gets_what_was_there_before_it(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = command(broker, capsys, "share", "create", "workers", "jobs", "--from", "beginning")
    assert status == 0, err
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["workers", "jobs", "0", "0"],
        ["workers", "jobs", "1", "0"],
    ]
    assert command(broker, capsys, "share", "list")[1].split()[-2:] == ["workers", "Empty"]
    assert asyncio.run(consume(broker, "workers", 3)) >= {b"first", b"second", b"third"}


def test_without_topics_a_group_is_prepared_for_those_that_its_consumers_subscribe_to(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = command(broker, capsys, "share", "create", "later", "--from", "beginning")
    assert status == 0
    assert err == "Share group later starts with its first consumer; share.auto.offset.reset is earliest.\n"
    assert asyncio.run(consume(broker, "later", 3)) >= {b"first", b"second", b"third"}


def test_a_group_that_starts_at_the_end_misses_nothing_from_then_on(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert starts(broker, capsys, "ends", "jobs") == [2, 1]
    asyncio.run(produce(broker, b"new"))
    assert asyncio.run(consume(broker, "ends", 1)) == {b"new"}


def test_a_group_starts_at_a_time_or_so_long_ago(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert starts(broker, capsys, "timed", "jobs", "--from", "2020-01-01T00:00") == [0, 0]
    assert starts(broker, capsys, "aged", "jobs", "--from", "PT1H", "-c", "share.delivery.count.limit=9") == [0, 0]
    configs = json.loads(command(broker, capsys, "config", "get", "group", "aged", "--json")[1])
    assert {each["name"]: each["value"] for each in configs} == {
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.delivery.count.limit": "9",
    }
    assert starts(broker, capsys, "future", "jobs", "--from", "2999-01-01T00:00")[1] >= 1  # the end: nothing is newer


def test_a_group_that_exists_is_left_as_it_is(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    starts(broker, capsys, "twice", "jobs")
    status, _, err = command(broker, capsys, "share", "create", "twice", "jobs", "--from", "beginning")
    assert status == 1
    assert "Share group 'twice' exists already." in err
    assert "penstock share reset-offsets twice --all-topics --to-earliest" in err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("jbs",), 1, "Did you mean:       jobs"),
        (("jobs", "--from", "yesterday"), 2, "'yesterday' is none of: beginning, end, a time"),
        (("--from", "2026-01-01T00:00"), 2, "A time needs topics to look it up in"),
        (("jobs", "-c", "share.delivery.count.limt=9"), 1, "Did you mean:       share.delivery.count.limit"),
        (("jobs", "-c", "share.auto.offset.reset=latest"), 2, "is what --from sets"),
    ],
)
def test_what_cannot_be_creates_nothing(
    broker: Broker, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, said: str
) -> None:
    got, _, err = command(broker, capsys, "share", "create", "wrong", *arguments)
    assert got == status
    assert said in err
    assert "wrong" not in command(broker, capsys, "share", "list")[1]
    assert command(broker, capsys, "config", "get", "group", "wrong")[1] == ""
