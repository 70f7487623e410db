"""A stopped Apache Kafka is taken over: same topics, records, offsets, groups, queues, users and rules."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.adoption.adopt import adopt
from penstock.adoption.kafka_folder import AdoptionError, KafkaFolder
from penstock.adoption.plan import make_plan
from penstock.catalog.contract import CatalogError
from penstock.testing.broker import Broker
from tests.adoption.folders import CONFIGS, Recorded, tree
from tests.adoption.record import RELEASES


@pytest.mark.parametrize("version", RELEASES)
def test_penstock_serves_what_kafka_served(tmp_path: Path, version: str) -> None:
    kafka = Recorded(tmp_path, version)
    adopt(make_plan(kafka.folders))
    found, expected = kafka.served(), kafka.expected()
    if version == "4.1.1":  # which does not know the lag of queues
        for queue in (found["queue"], expected["queue"]):
            queue[:] = [[partition, start] for partition, start, _ in queue]
    for name, value in expected.items():
        assert found[name] == value, name


def move_to(kafka: Recorded, disk: Path) -> list[Path]:
    """The second folder of the recording, as one on another disk."""
    shutil.copytree(kafka.more, disk / "more")
    return [kafka.data, disk / "more"]


def partitions(folder: Path) -> list[str]:
    return sorted("-".join(map(str, key)) for key in KafkaFolder(folder, "", 1, "").partitions())


def test_folders_on_two_file_systems_become_one(kafka: Recorded, other_disk: Path) -> None:
    folders = move_to(kafka, other_disk)
    names = partitions(folders[1])
    before = tree(folders[1])
    adopt(make_plan(folders))
    assert kafka.served() == kafka.expected()
    assert_all_originals(folders[1], names, before)


# The command in a process of its own, which is killed at random moments: each call to the file system is a bit slower
# than usual, so that the moments are spread over all steps.
SLOWED = """
import os, sys, time
from pathlib import Path
from penstock.adoption.adopt import adopt
from penstock.adoption.plan import make_plan

def slowed(real):
    def call(*arguments, **named):
        time.sleep(0.002)
        result = real(*arguments, **named)
        time.sleep(0.002)
        return result
    return call

for name in ("rename", "replace", "open", "unlink", "mkdir", "fsync"):
    setattr(os, name, slowed(getattr(os, name)))
print("ready", flush=True)
adopt(make_plan([Path(each) for each in sys.argv[1:]]))
"""


SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_again_and_again_it_is_finished_in_the_end(kafka: Recorded, other_disk: Path, seed: int) -> None:
    rng = random.Random(seed)
    folders = move_to(kafka, other_disk)
    names, before = partitions(folders[1]), tree(folders[1])
    for _ in range(5):
        command = [sys.executable, "-c", SLOWED, *map(str, folders)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0, 1.0))
            process.send_signal(signal.SIGKILL)
        if (kafka.data / "catalog.sqlite").exists():
            break
        assert_nobody_starts(kafka.data)
    if not (kafka.data / "catalog.sqlite").exists():
        adopt(make_plan(folders))
    assert kafka.served() == kafka.expected()
    assert_all_originals(folders[1], names, before)


def assert_all_originals(folder: Path, names: list[str], before: dict[str, bytes]) -> None:
    """The partitions that were copied are still in their old folder, under another name."""
    assert partitions(folder) == []
    after = tree(folder)
    for path, data in before.items():
        name, _, file = path.partition("/")
        if name in names:
            assert after[f"{name}.adopted/{file}"] == data


def assert_nobody_starts(data: Path) -> None:
    with pytest.raises(CatalogError, match="penstock adopt"), Broker(CONFIGS, data=data):
        pass


def test_copies_that_were_finished_before_a_kill_are_not_made_again(kafka: Recorded, other_disk: Path) -> None:
    folders = move_to(kafka, other_disk)
    name = partitions(folders[1])[0]
    shutil.copytree(folders[1] / name, kafka.data / name)
    plan = make_plan(folders)
    assert plan.obstacles == []
    assert plan.originals == [folders[1] / name]
    adopt(plan)
    assert kafka.served() == kafka.expected()


@pytest.mark.parametrize("has_folder_of_its_own", [False, True], ids=["in the second folder", "--metadata"])
def test_the_metadata_log_may_be_elsewhere(kafka: Recorded, has_folder_of_its_own: bool) -> None:
    if has_folder_of_its_own:
        controller = kafka.root / "controller"
        controller.mkdir()
        kafka.metadata.rename(controller / kafka.metadata.name)
        before = tree(controller)
        adopt(make_plan([kafka.more, kafka.data], controller))
        assert tree(controller) == before
    else:
        adopt(make_plan([kafka.more, kafka.data]))
        assert not kafka.metadata.exists()
    assert (kafka.more / "kafka-metadata" / "00000000000000000000.log").exists()
    assert kafka.served(kafka.more) == kafka.expected()


def test_kafka_does_not_start_on_what_was_taken_over(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    for folder in kafka.folders:
        assert not (folder / "meta.properties").exists()


def refused(paths: list[Path]) -> str:
    with pytest.raises(AdoptionError) as refusal:
        adopt(make_plan(paths))
    return str(refusal.value)


def test_a_folder_is_taken_over_once(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    assert "Penstock's already" in refused(kafka.folders)


def test_a_folder_on_which_penstock_runs_is_refused(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    with Broker(CONFIGS, data=kafka.data):
        shutil.move(kafka.data / "catalog.sqlite", kafka.root / "aside")
        assert "is in use" in refused(kafka.folders)


# Kafka's own lock: that of Java's FileChannel.
JAVA_LIKE_LOCK = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_folder_on_which_kafka_runs_is_refused_and_left_alone(kafka: Recorded) -> None:
    before = tree(kafka.root)
    command = [sys.executable, "-c", JAVA_LIKE_LOCK, str(kafka.more / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        assert refused(kafka.folders) == f"{kafka.more} is in use: stop the broker that runs on it first"
        plan = make_plan(kafka.folders)
        assert len(plan.obstacles) == 1
        holder.stdin.close()
    assert tree(kafka.root) == before
    assert os.path.getsize(kafka.more / ".lock") == 0
