"""Everything that stands in the way of taking a folder over is found before anything changes, and all of it at once."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.adoption import plan as planning
from penstock.adoption.kafka_folder import AdoptionError, KafkaFolder
from penstock.adoption.metadata_log import read_metadata
from penstock.adoption.plan import make_plan
from penstock.adoption.release import _framed, _records, _write_snapshot
from penstock.broker.features import SUPPORTED
from penstock.catalog.sqlite import SqliteCatalog
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from tests.adoption.folders import Recorded, tree


def obstacles(paths: list[Path]) -> list[str]:
    try:
        return make_plan(paths).obstacles
    except AdoptionError as error:
        return list(error.obstacles)


def only_obstacle(paths: list[Path]) -> str:
    (found,) = obstacles(paths)
    return found


def test_looking_changes_nothing(kafka: Recorded) -> None:
    before = tree(kafka.root)
    plan = make_plan(kafka.folders)
    assert len(plan.partitions) == 21
    assert plan.obstacles == []
    assert tree(kafka.root) == before
    assert not list(kafka.root.rglob(".lock"))


def test_all_obstacles_are_listed_at_once(kafka: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SUPPORTED, "share.version")
    (kafka.data / "nobody-0").mkdir()
    write_topic_id(kafka.data / "nobody-0", "AAAAAAAAAAAAAAAAAAAAAg")
    (segment,) = kafka.root.glob("*/orders-0/*.log")
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    found = obstacles([kafka.data])
    assert len(found) == 4
    for each, part in zip(
        sorted(found), ["share.version", "nobody-0", "name all of them", "before 0.11"], strict=False
    ):
        assert any(part in text for text in found), each


def test_a_forgotten_folder_is_noticed(kafka: Recorded) -> None:
    assert "name all of them" in only_obstacle([kafka.data])


def test_a_folder_of_nobody_is_refused(tmp_path: Path) -> None:
    assert "log.dirs" in only_obstacle([tmp_path])


def test_a_broker_of_zookeeper_s_time_is_refused(kafka: Recorded) -> None:
    (kafka.data / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert "KRaft" in obstacles(kafka.folders)[0]


def test_folders_of_two_brokers_are_refused(kafka: Recorded) -> None:
    meta = kafka.more / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    assert "of one broker" in only_obstacle(kafka.folders)


def test_an_unknown_feature_is_refused(kafka: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SUPPORTED, "share.version")
    assert "share.version" in only_obstacle(kafka.folders)


UNKNOWN = {
    "a feature": _framed(m.FeatureLevelRecord(name="tiers.version", feature_level=1)),
    "a later metadata.version": _framed(m.FeatureLevelRecord(name="metadata.version", feature_level=99)),
    "a kind of record": bytes((1, 120, 0)) + b"?",
    "a version of a record": bytes((1, 2, 9)) + b"?",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_a_later_kafka_has_left_is_refused_and_not_touched(kafka: Recorded, what: str) -> None:
    log = read_metadata(kafka.metadata, was_stopped_cleanly=True)
    own = KafkaFolder.open(kafka.data)
    with TemporaryDirectory() as folder:
        with Broker(data=Path(folder)):
            pass
        catalog = SqliteCatalog.open(Path(folder) / "catalog.sqlite")
        records = list(_records(own, catalog, dict(log.image.features), log, []))
        catalog.close()
    _write_snapshot(kafka.metadata, log, [*records, UNKNOWN[what]], 0)
    before = tree(kafka.root)
    command = [sys.executable, "-m", "penstock.cli.main", "adopt", *map(str, kafka.folders)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "Nothing was changed." in refused.stderr
    assert "does not know" in refused.stderr
    assert tree(kafka.root) == before


def test_records_of_an_ancient_format_are_refused(kafka: Recorded) -> None:
    (segment,) = kafka.root.glob("*/orders-0/*.log")
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    assert "before 0.11" in only_obstacle(kafka.folders)


def write_topic_id(folder: Path, topic_id: str) -> None:
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def test_a_partition_that_the_metadata_does_not_know_is_not_passed_over(kafka: Recorded) -> None:
    (kafka.data / "orders-7").mkdir()
    write_topic_id(kafka.data / "orders-7", "AAAAAAAAAAAAAAAAAAAAAg")
    assert "is not in the metadata" in only_obstacle(kafka.folders)


def test_a_partition_of_an_earlier_topic_of_the_same_name_is_noticed(kafka: Recorded) -> None:
    write_topic_id(kafka.data / "jobs-0", "AAAAAAAAAAAAAAAAAAAAAg")
    assert "another topic of that name" in only_obstacle(kafka.folders)


def test_a_folder_that_only_looks_like_a_partition_is_left_alone(kafka: Recorded) -> None:
    (kafka.data / "backup-2024").mkdir()
    plan = make_plan(kafka.folders)
    assert plan.obstacles == []
    assert any("backup-2024" in note for note in plan.notes)


def test_metadata_from_before_the_last_leader_is_refused(kafka: Recorded) -> None:
    (kafka.data / "jobs-0" / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    assert "older than the folder" in only_obstacle(kafka.folders)


def test_two_different_folders_of_a_partition_are_refused(kafka: Recorded) -> None:
    (kafka.more / "jobs-0").mkdir()
    (kafka.more / "jobs-0" / "00000000000000000000.log").write_bytes(b"other")
    assert "in two folders" in only_obstacle(kafka.folders)


def test_too_little_space_for_the_copies_is_noticed(
    kafka: Recorded, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.more.rename(kafka.root / "aside")
    more = other_disk / "more"
    import shutil

    shutil.copytree(kafka.root / "aside", more)
    space = namedtuple("space", ["total_bytes", "usable_bytes"])
    monkeypatch.setattr(planning, "disk_space", lambda path: space(1000, 10))
    assert "10 bytes free" in only_obstacle([kafka.data, more])
