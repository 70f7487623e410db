from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_a_topic_is_created_listed_described_altered_and_deleted(penstock: Run) -> None:
    made = penstock("topic", "create", "orders", "--partitions", "3", "-c", "retention.ms=1000")
    assert (made.returncode, made.stderr) == (0, "Created topic orders.\n")

    listed = penstock("topic", "list")
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [["orders", "3"]]

    described = json.loads(penstock("topic", "describe", "orders", "--json").stdout)[0]
    assert described["partition_count"] == 3
    assert described["configs"]["retention.ms"] == "1000"
    assert [p["latest"] for p in described["partitions"]] == [0, 0, 0]
    text = penstock("topic", "describe", "orders").stdout
    assert "PartitionCount: 3" in text
    assert "Leader" in text

    changed = penstock(
        "topic", "alter", "orders", "--partitions", "4", "-c", "segment.ms=60000", "--unset", "retention.ms"
    )
    assert changed.returncode == 0
    described = json.loads(penstock("topic", "describe", "orders", "--json").stdout)[0]
    assert described["partition_count"] == 4
    assert described["configs"]["segment.ms"] == "60000"
    assert "retention.ms" not in described["configs"]

    assert penstock("topic", "delete", "orders").returncode == 0
    assert penstock("topic", "delete", "orders", "--if-exists").returncode == 0
    assert "no topics yet" in penstock("topic", "list").stderr


def test_a_topic_that_exists_is_said_so(penstock: Run) -> None:
    penstock("topic", "create", "twice")
    again = penstock("topic", "create", "twice")
    assert again.returncode == 1
    assert "penstock topic describe twice" in again.stderr
    assert penstock("topic", "create", "twice", "--if-not-exists").returncode == 0
    penstock("topic", "delete", "twice")


def test_a_misspelt_topic_is_answered_with_the_nearest_one(penstock: Run) -> None:
    penstock("topic", "create", "invoices")
    for arguments in (("topic", "describe", "invoces"), ("consume", "invoces"), ("produce", "invoces", "v")):
        failed = penstock(*arguments)
        assert failed.returncode == 1
        assert "Did you mean:       invoices" in failed.stderr
        assert "penstock topic create invoces" in failed.stderr
    penstock("topic", "delete", "invoices")


def test_a_misspelt_config_is_answered_with_the_nearest_one(penstock: Run) -> None:
    penstock("topic", "create", "spelling")
    failed = penstock("topic", "alter", "spelling", "-c", "retenton.ms=5")
    assert failed.returncode == 1
    assert "Did you mean:       retention.ms" in failed.stderr
    assert penstock("topic", "alter", "spelling").returncode == 2
    assert penstock("topic", "alter", "spelling", "-c", "nonsense").returncode == 2
    penstock("topic", "delete", "spelling")
