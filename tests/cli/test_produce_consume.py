from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run, command, environment


@pytest.fixture
def topic(penstock: Run) -> Iterator[str]:
    name = f"words-{time.time_ns()}"
    penstock("topic", "create", name)
    yield name
    penstock("topic", "delete", name)


def test_lines_go_in_and_come_out(penstock: Run, topic: str) -> None:
    wrote = penstock("produce", topic, input="one\ntwo\nthree")
    assert (wrote.returncode, wrote.stderr) == (0, f"Wrote 3 records to {topic}.\n")
    assert penstock("consume", topic, "--exit-at-end").stdout == "one\ntwo\nthree\n"


def test_values_may_be_arguments_with_key_and_headers(penstock: Run, topic: str) -> None:
    penstock("produce", topic, "a", "b", "--key", "k", "-H", "h=1")
    read = penstock("consume", topic, "--exit-at-end", "--keys", "--headers", "--offsets", "--separator", "|")
    assert read.stdout == "0:0|h=1|k|a\n0:1|h=1|k|b\n"


def test_keys_may_stand_on_the_line(penstock: Run, topic: str) -> None:
    penstock("produce", topic, "--key-separator", ":", input="k1:v1\nk2:v:2\n")
    assert penstock("consume", topic, "--exit-at-end", "--keys").stdout == "k1\tv1\nk2\tv:2\n"
    failed = penstock("produce", topic, "--key-separator", ":", input="no key here\n")
    assert failed.returncode == 1
    assert "Line 1 has no key" in failed.stderr


def test_json_goes_in_and_comes_out(penstock: Run, topic: str) -> None:
    lines = [
        {"key": "k", "value": "text", "headers": {"h": "x"}, "timestamp": 1_700_000_000_000},
        {"value": {"a": 1}},
        {"key": "gone", "value": None},
        {"value_base64": "/w=="},
    ]
    penstock("produce", topic, "--json", input="\n".join(map(json.dumps, lines)))
    read = penstock("consume", topic, "--exit-at-end", "--json")
    first, second, third, fourth = (json.loads(line) for line in read.stdout.splitlines())
    assert (first["key"], first["value"], first["headers"]) == ("k", "text", [["h", "x"]])
    assert (first["timestamp"], first["partition"], first["offset"]) == (1_700_000_000_000, 0, 0)
    assert json.loads(second["value"]) == {"a": 1}
    assert third["value"] is None
    assert fourth["value_base64"] == "/w=="
    assert "Line 1 is not JSON" in penstock("produce", topic, "--json", input="{").stderr


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", "0 1 2 3 4"),
        ("end", ""),
        ("3", "3 4"),
        ("-2", "3 4"),
        ("@1700000002000", "2 3 4"),
        ("2023-11-14T22:13:23+00:00", "3 4"),
    ],
)
def test_reading_starts_where_it_is_told(penstock: Run, topic: str, start: str, expected: str) -> None:
    lines = [json.dumps({"value": str(n), "timestamp": 1_700_000_000_000 + 1000 * n}) for n in range(5)]
    penstock("produce", topic, "--json", input="\n".join(lines))
    assert penstock("consume", topic, "--from", start, "--exit-at-end").stdout.split() == expected.split()


def test_reading_stops_after_so_many(penstock: Run, topic: str) -> None:
    penstock("produce", topic, input="a\nb\nc\n")
    assert penstock("consume", topic, "--max", "2").stdout == "a\nb\n"


def test_a_group_goes_on_where_it_stood(penstock: Run, topic: str) -> None:
    penstock("produce", topic, input="a\nb\n")
    assert penstock("consume", topic, "--group", f"g-{topic}", "--exit-at-end").stdout == "a\nb\n"
    penstock("produce", topic, input="c\n")
    assert penstock("consume", topic, "--group", f"g-{topic}", "--exit-at-end").stdout == "c\n"


def test_a_pipe_that_closes_early_is_no_error(penstock: Run, topic: str, broker_address: str) -> None:
    penstock("produce", topic, input="\n".join("x" * 100 for _ in range(5000)))
    reader = subprocess.Popen(
        command(("consume", topic)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PENSTOCK_BOOTSTRAP=broker_address),
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.readline()
    reader.stdout.close()
    penstock("produce", topic, input="\n".join("y" * 100 for _ in range(5000)))
    assert reader.wait(30) == 0
    assert reader.stderr.read() == b""
    reader.stderr.close()


def test_wrong_options_are_explained(penstock: Run, topic: str) -> None:
    wrong = penstock("consume", topic, "--from", "yesterday")
    assert wrong.returncode == 2
    assert "2026-01-31T12:00" in wrong.stderr
    assert penstock("consume", topic, "--partition", "7").returncode == 2
    assert penstock("consume", topic, "--group", "g", "--partition", "0").returncode == 2
    assert penstock("consume").returncode == 2


def test_ctrl_c_ends_reading_quietly(penstock: Run, topic: str, broker_address: str) -> None:
    penstock("produce", topic, "one")
    reader = subprocess.Popen(
        command(("consume", topic)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PENSTOCK_BOOTSTRAP=broker_address),
        # Whoever runs the tests in the background of a shell has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"one\n"
    reader.send_signal(signal.SIGINT)
    _, complaints = reader.communicate(timeout=30)
    assert reader.returncode == 130
    assert complaints.strip() == b""


def test_a_refused_record_names_its_partition_as_it_is_spelt(penstock: Run) -> None:
    penstock("topic", "create", "keyed", "-c", "cleanup.policy=compact")
    failed = penstock("produce", "keyed", "no key")
    penstock("topic", "delete", "keyed")
    assert failed.returncode == 1
    assert "Error: keyed-0: " in failed.stderr
    assert "Compacted topic cannot accept message without key" in failed.stderr
