"""`penstock mirror` as a person or a program runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Admin, OffsetSpec, Producer, TopicPartition
from penstock.testing.broker import Broker
from tests.mirror.test_source import produce

COMMAND = [sys.executable, "-m", "penstock.cli.main", "mirror"]


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("other")
        asyncio.run(produce(broker, 100, topic="orders"))
        yield broker


@pytest.fixture
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def run(source: Broker, target: Broker, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    sides = ["--from", source.bootstrap_servers, "--to", target.bootstrap_servers]
    done = subprocess.run([*COMMAND, *arguments, *sides], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_from_the_first_copy_to_the_cut_over(source: Broker, target: Broker) -> None:
    assert "2 topics, 3 partitions, 0 groups: 100 records" in run(source, target, "--once").stderr
    shown = run(source, target, "status").stdout.split("\n")
    assert [line.split() for line in shown[1:3]] == [["orders", "2", "0", "mirrored"], ["other", "1", "0", "mirrored"]]
    done = run(source, target, "cut-over", "--still-for", "0.5")
    assert "The target has everything: 2 topics, 3 partitions, 0 groups. Compared 100 records." in done.stdout
    assert f"Start the programs with bootstrap.servers={target.bootstrap_servers}." in done.stdout
    rows = json.loads(run(source, target, "status", "--json").stdout)
    assert all(row["lag"] == 0 and row["cut_over_ms"] for row in rows)
    assert "add --again" in run(source, target, code=1).stderr


def test_programs_read_json_and_stop_the_mirror_with_sigterm(source: Broker, target: Broker) -> None:
    sides = ["--from", source.bootstrap_servers, "--to", target.bootstrap_servers]
    running = subprocess.Popen([*COMMAND, "--json", "--topic", "or*", *sides], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        status = json.loads(line)
        if status["ready"] and not status["lag"]:
            break
    running.send_signal(signal.SIGTERM)
    rest, _ = running.communicate(timeout=30)
    assert running.returncode == 0
    assert (status["topics"], status["problems"]) == (1, [])
    assert json.loads(rest.splitlines()[-1])["records"] == 100


def test_a_refused_cut_over_says_why(source: Broker, target: Broker) -> None:
    target.create_topic("orders", 3)
    refused = run(source, target, "cut-over", "--still-for", "0.5", "--json", code=1)
    assert "3 partitions at the target" in json.loads(refused.stdout)["reasons"][0]
    assert "Some topics are not mirrored" in run(source, target, "--once", code=1).stderr


def test_sides_may_be_named_in_files(source: Broker, target: Broker, tmp_path: Path) -> None:
    files = []
    for name, broker in (("from", source), ("to", target)):
        file = tmp_path / f"{name}.properties"
        file.write_text(f"bootstrap.servers={broker.bootstrap_servers}\n")
        files += [f"--{name}-config", str(file)]
    done = subprocess.run([*COMMAND, "--once", *files], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "127.0.0.1:1"], "Name a broker: --from HOST:PORT"),
        (["--from", "x:y", "--to", "127.0.0.1:1"], "it must look like host:port"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: list[str], message: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


async def leave_gaps(source: Broker) -> None:
    with contextlib.suppress(ValueError):
        async with (
            Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="x") as producer,
            producer.transaction(),
        ):
            for _ in range(20):
                await producer.send("orders", b"aborted", partition=0)
            await producer.flush()
            raise ValueError
    async with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
        await admin.delete_records({TopicPartition("orders", 0): 5})
        await admin.alter_group_offsets("g", {TopicPartition("orders", 0): 7})


def test_a_secured_target_is_reached_with_its_settings(penstock_broker: Broker, tmp_path: Path) -> None:
    """With the rights that docs/how-to/moving.md names, and no others."""
    source = penstock_broker
    source.create_topic("orders")
    asyncio.run(produce(source, 100, topic="orders"))
    asyncio.run(leave_gaps(source))
    topic = "create write read delete alter alter-configs describe describe-configs"
    rules = [
        *(f"User:mirror {operation} topic *" for operation in topic.split()),
        *(f"User:mirror {operation} group *" for operation in ("read", "describe", "delete")),
        *(f"User:mirror {operation} transactional-id penstock-mirror-*" for operation in ("write", "describe")),
        "User:mirror idempotent-write cluster",
    ]
    with Broker(sasl="SCRAM-SHA-512", users={"mirror": "secret"}, acls=rules) as target:
        settings = target.client_settings("mirror")
        file = tmp_path / "to.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        done = subprocess.run(
            [*COMMAND, "--once", "--from", source.bootstrap_servers, "--to-config", str(file)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

        async def found() -> tuple[int, int]:
            async with Admin(dict(settings)) as admin:
                tp = TopicPartition("orders", 0)
                end = await admin.list_offsets({tp: OffsetSpec.LATEST})
                return end[tp].offset, (await admin.list_group_offsets("g"))[tp].offset

        assert asyncio.run(found()) == (121, 7)
