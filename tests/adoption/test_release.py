"""A folder that was taken over is given back; that a real Kafka starts on it is shown in tests/java/test_moving.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adoption import release as giving_back
from penstock.adoption.adopt import adopt
from penstock.adoption.kafka_folder import AdoptionError
from penstock.adoption.metadata_log import METADATA_FOLDER, read_image
from penstock.adoption.plan import make_plan
from penstock.adoption.release import release
from penstock.catalog.contract import CatalogError
from penstock.testing.broker import Broker
from tests.adoption.test_adopt import CONFIGS, expected, folders, kafka, served

__all__ = ["kafka"]


def test_what_was_released_is_taken_over_again_unchanged(kafka: Path) -> None:
    adopt(make_plan(folders(kafka)))
    before = read_image(kafka / "data" / "kafka-metadata")
    with Broker(CONFIGS, data=kafka / "data"):
        pass
    assert release(kafka / "data", 0).partitions == 21
    after = read_image(kafka / "data" / METADATA_FOLDER)
    assert after.features == before.features
    assert after.configs == before.configs
    assert {topic.name: topic_id for topic_id, topic in after.topics.items()} == {
        topic.name: topic_id for topic_id, topic in before.topics.items()
    }
    assert sorted(after.acls.values()) == sorted(before.acls.values())
    assert after.credentials == before.credentials
    assert after.next_producer_id >= before.next_producer_id
    for topic_id, topic in after.topics.items():
        for index, partition in topic.partitions.items():
            assert partition.leader_epoch > before.topics[topic_id].partitions[index].leader_epoch
    adopt(make_plan(folders(kafka)))
    assert served(kafka) == expected(kafka)


def test_a_killed_broker_has_to_be_stopped_first(kafka: Path) -> None:
    adopt(make_plan(folders(kafka)))
    (kafka / "data" / ".kafka_cleanshutdown").unlink()
    with pytest.raises(AdoptionError, match="start it once more"):
        release(kafka / "data", 0)


def test_a_folder_of_several_brokers_is_not_given_back(kafka: Path) -> None:
    (kafka / "brokers").mkdir()
    with pytest.raises(AdoptionError, match="the folder of several brokers"):
        release(kafka, 0)


def test_a_folder_that_kafka_never_had_is_refused(kafka: Path) -> None:
    with pytest.raises(AdoptionError, match="not taken over"):
        release(kafka / "data", 0)


@pytest.mark.parametrize("step", ["_write_snapshot", "sync_path"])
def test_interrupted_it_can_be_given_again(kafka: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    adopt(make_plan(folders(kafka)))
    with monkeypatch.context() as patched:

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(giving_back, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            release(kafka / "data", 0)
    assert release(kafka / "data", 0).topics == 7


def test_no_broker_starts_on_a_folder_that_is_kafka_s(kafka: Path) -> None:
    with pytest.raises(CatalogError, match="penstock adopt"), Broker(CONFIGS, data=kafka / "data"):
        pass
