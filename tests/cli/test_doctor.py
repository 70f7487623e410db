"""`penstock doctor` finds what newcomers trip over, and says what to do."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli import doctor
from penstock.cli.doctor import Level
from penstock.testing.broker import Broker
from tests.cli.conftest import Run


def test_a_healthy_broker_has_no_problems(penstock: Run) -> None:
    found = penstock("doctor")
    assert found.returncode == 0, found.stdout
    assert "can be reached from here" in found.stdout
    assert "no problems" in found.stdout


def test_without_a_broker_it_says_how_to_start_one(penstock: Run) -> None:
    found = penstock("doctor", "--bootstrap", "127.0.0.1:1")
    assert found.returncode == 1
    assert "PROBLEM  bootstrap 127.0.0.1:1: refuses connections" in found.stdout
    assert "penstock serve" in found.stdout


def test_an_advertised_address_that_nobody_reaches_is_named(penstock: Run) -> None:
    with Broker({"advertised.listeners": "PLAINTEXT://broker.invalid:9092"}) as broker:
        address = f"127.0.0.1:{broker.port}"
        found = penstock("doctor", "--bootstrap", address)
    assert found.returncode == 1
    assert "the name broker.invalid cannot be resolved" in found.stdout
    assert "--advertise" in found.stdout


async def test_a_loopback_address_is_a_problem_for_who_came_from_elsewhere(broker_address: str) -> None:
    from penstock.client.types import Node

    host, _, port = broker_address.rpartition(":")
    node = Node(0, host, int(port), None)
    assert (await doctor._advertised(node, went_elsewhere=False)).level is Level.GOOD
    finding = await doctor._advertised(node, went_elsewhere=True)
    assert finding.level is Level.PROBLEM
    assert "--advertise" in finding.advice


def test_a_port_in_use_is_named(penstock: Run, broker_address: str) -> None:
    found = json.loads(penstock("doctor", "--json", "--listen", broker_address).stdout)
    about = [each for each in found if each["subject"] == f"address {broker_address}"]
    assert [each["level"] for each in about] == ["problem"]
    assert "another process listens" in about[0]["text"]


@pytest.mark.parametrize(
    ("listen", "text"),
    [("nonsense", "is not HOST:PORT"), ("192.0.2.1:9092", "is not an address of this machine")],
)
def test_an_address_that_cannot_be_listened_on_is_explained(listen: str, text: str) -> None:
    assert text in doctor._port(listen).text


def test_a_free_port_is_good() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert doctor._port(f"PLAINTEXT://127.0.0.1:{port}").level is Level.GOOD


def test_a_file_in_place_of_the_data_folder_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("")
    assert [finding.level for finding in doctor._folder(file)] == [Level.PROBLEM]


def test_a_file_above_the_data_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = list(doctor._folder(tmp_path / "file" / "data"))
    assert [(finding.level, finding.text) for finding in found] == [
        (Level.PROBLEM, f"{tmp_path / 'file'} is a file, not a folder")
    ]


def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.path` takes what is hidden for absent, and root may enter everything: so `os.access` has to be told."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = list(doctor._folder(tmp_path / "hidden" / "data"))
    assert [finding.level for finding in found] == [Level.PROBLEM]
    assert f"{tmp_path} cannot be written by this user" in found[0].text


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_somebody_else_in_the_data_folder_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "catalog.sqlite"
    file.write_text("")
    os.chown(file, 12345, -1)
    warnings = [finding for finding in doctor._folder(tmp_path) if finding.level is Level.WARNING]
    assert [finding.text for finding in warnings if "catalog.sqlite" in finding.text]


def found_in(penstock: Run, data: Path) -> tuple[str, str]:
    findings = json.loads(penstock("doctor", "--json", "--data", str(data)).stdout)
    (problem,) = [each for each in findings if each["subject"] == f"data folder {data}" and each["level"] == "problem"]
    return problem["text"], problem["advice"]


def test_a_folder_of_kafka_is_recognised(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert found_in(penstock, tmp_path) == (
        "belongs to Apache Kafka",
        f"Take it over with 'penstock adopt {tmp_path}' first",
    )


def test_a_folder_that_a_newer_version_wrote_is_recognised(penstock: Run, tmp_path: Path) -> None:
    with Broker(data=tmp_path):
        findings = json.loads(penstock("doctor", "--json", "--data", str(tmp_path)).stdout)
        assert [each["level"] for each in findings if each["subject"] == f"data folder {tmp_path}"] == ["good"]
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as catalog:
        catalog.execute("PRAGMA user_version = 99")
    text, advice = found_in(penstock, tmp_path)
    assert "was written by a newer Penstock (catalog version 99" in text
    assert advice == "Use that version or a later one"


def test_a_damaged_catalog_is_recognised(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"no database")
    text, advice = found_in(penstock, tmp_path)
    assert "catalog.sqlite is damaged" in text
    assert "backup" in advice
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.sqlite"]


@pytest.mark.parametrize(
    ("limits", "advice"),
    [((256, 1_000_000), "ulimit -n 4096"), ((256, 2048), "ulimit -n 2048"), ((1024, 1024), "Raise the hard limit")],
)
def test_a_low_limit_of_open_files_comes_with_what_helps(
    limits: tuple[int, int], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    (finding,) = doctor._file_limit()
    assert finding.level is Level.WARNING
    assert advice in finding.advice
