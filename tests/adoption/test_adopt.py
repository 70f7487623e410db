"""A stopped Apache Kafka is taken over: same topics, records, offsets, groups, queues, users and rules."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.adoption import adopt as adoption
from penstock.adoption.adopt import adopt
from penstock.adoption.kafka_folder import AdoptionError
from penstock.adoption.plan import make_plan
from penstock.testing.broker import Broker
from tests.adoption import kafka_load
from tests.adoption.record import OBSERVED, RECORDING, as_json

CONFIGS = {
    "node.id": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """What a real Apache Kafka 4.3.1 with two log.dirs has left, unpacked."""
    with tarfile.open(RECORDING) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def folders(kafka: Path) -> list[Path]:
    return [kafka / "data", kafka / "more"]


def served(kafka: Path) -> dict[str, Any]:
    """What Penstock serves from the folder."""
    with Broker(CONFIGS, data=kafka / "data") as broker:
        return dict(json.loads(as_json(kafka_load.observe(broker.bootstrap_servers))))


def expected(kafka: Path) -> dict[str, Any]:
    return dict(json.loads((kafka / OBSERVED).read_text()))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_penstock_serves_what_kafka_served(kafka: Path) -> None:
    adopt(make_plan(folders(kafka)))
    found = served(kafka)
    for name, value in expected(kafka).items():
        assert found[name] == value, name


def test_looking_changes_nothing(kafka: Path) -> None:
    before = tree(kafka)
    plan = make_plan(folders(kafka))
    assert len(plan.partitions) == 21
    assert tree(kafka) == before


STEPS = ["_write_catalog", "_gather", "_merge_checkpoints", "_next_epoch", "remove_if_there", "sync_path"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_killed_at_any_step_it_can_be_given_again(
    kafka: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_done: bool
) -> None:
    (kafka / "data" / ".kafka_cleanshutdown").unlink()
    real: Callable[..., object] = getattr(adoption, step)

    def interrupted(*arguments: object) -> object:
        if is_done:
            real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(adoption, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            adopt(make_plan(folders(kafka)))
    assert not (kafka / "data" / "catalog.sqlite").exists()
    adopt(make_plan(folders(kafka)))
    with Broker(CONFIGS, data=kafka / "data") as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        found = kafka_load.read(settings, "orders", "read_uncommitted")
    assert json.loads(json.dumps(found, default=bytes.decode)) == expected(kafka)["read_uncommitted"]["orders"]


def refused(paths: list[Path]) -> str:
    with pytest.raises(AdoptionError) as refusal:
        adopt(make_plan(paths))
    return str(refusal.value)


def test_a_forgotten_folder_is_noticed(kafka: Path) -> None:
    before = tree(kafka)
    assert "name all of them" in refused([kafka / "data"])
    assert tree(kafka) == before


def test_a_folder_of_nobody_is_refused(tmp_path: Path) -> None:
    assert "log.dirs" in refused([tmp_path])


def test_a_broker_of_zookeeper_s_time_is_refused(kafka: Path) -> None:
    (kafka / "data" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert "KRaft" in refused(folders(kafka))


def test_folders_of_two_brokers_are_refused(kafka: Path) -> None:
    meta = kafka / "more" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    assert "of one broker" in refused(folders(kafka))


def test_an_unknown_feature_is_refused(kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(adoption.SUPPORTED, "share.version")
    assert "share.version" in refused(folders(kafka))


def test_a_damaged_snapshot_is_refused(kafka: Path) -> None:
    (snapshot,) = (kafka / "data" / "__cluster_metadata-0").glob("*.checkpoint")
    data = bytearray(snapshot.read_bytes())
    data[-5] ^= 1
    snapshot.write_bytes(data)
    assert "damaged" in refused(folders(kafka))


def test_a_folder_is_taken_over_once(kafka: Path) -> None:
    adopt(make_plan(folders(kafka)))
    assert "Penstock's already" in refused(folders(kafka))


def test_a_folder_in_use_is_refused(kafka: Path) -> None:
    adopt(make_plan(folders(kafka)))
    with Broker(CONFIGS, data=kafka / "data"):
        shutil.move(kafka / "data" / "catalog.sqlite", kafka / "aside")
        assert "is in use" in refused(folders(kafka))


def test_records_of_an_ancient_format_are_refused(kafka: Path) -> None:
    (segment,) = kafka.glob("*/orders-0/*.log")
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    assert "before 0.11" in refused(folders(kafka))
