"""`penstock load` and `penstock pipeline` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.client.sync import Producer
from penstock.testing.broker import Broker


def produce(broker: Broker, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("t", f"{number}", partition=number % 2)


def test_a_dry_run_needs_no_java_and_shows_the_ranges(
    penstock_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 10)
    command = [
        "load",
        "t",
        "--to",
        str(tmp_path / "lake"),
        "--dry-run",
        "--bootstrap",
        penstock_broker.bootstrap_servers,
    ]
    assert run(command) == 0
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        ["t", "0", "0", "5", "5"],
        ["t", "1", "0", "5", "5"],
    ]
    assert "2 tasks, at most 10 rows" in shown.err
    assert not (tmp_path / "lake").exists()


def test_a_missing_topic_is_said_without_a_traceback(
    penstock_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["load", "nowhere", "--to", str(tmp_path), "--dry-run", "--bootstrap", penstock_broker.bootstrap_servers]
    assert run(command) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_pipelines_plan_and_history_as_json(
    penstock_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 4)
    file = tmp_path / "p.yaml"
    file.write_text(f"name: p\ntopics: [t]\nsink: {{to: {tmp_path / 'lake'}}}\n")
    broker = ["--bootstrap", penstock_broker.bootstrap_servers]
    assert run(["pipeline", "run", str(file), "--dry-run", "--json", *broker]) == 0
    assert json.loads(capsys.readouterr().out)["rows_at_most"] == 4
    assert run(["pipeline", "history", str(file), "--folder", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    file.write_text("name: p\ntopics: [t]\nsink: {}\n")
    assert run(["pipeline", "run", str(file), "--dry-run", *broker]) == 1
    assert "one of to" in capsys.readouterr().err
