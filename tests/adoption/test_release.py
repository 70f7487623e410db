"""A data folder is given to Kafka; that a real Kafka starts on it is shown in tests/java/test_moving.py."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.adoption.adopt import adopt
from penstock.adoption.image import MetadataImage
from penstock.adoption.kafka_folder import AdoptionError, KafkaFolder
from penstock.adoption.metadata_log import METADATA_FOLDER, read_metadata
from penstock.adoption.plan import make_plan
from penstock.adoption.release import release
from penstock.catalog.contract import CatalogError
from penstock.client import Admin, NewTopic, ResourceType
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.codec import decode
from tests.adoption.folders import CONFIGS, Recorded


def image_in(folder: Path) -> MetadataImage:
    return read_metadata(folder, was_stopped_cleanly=True).image


def test_what_was_released_is_taken_over_again_unchanged(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    before = image_in(kafka.data / "kafka-metadata")
    with Broker(CONFIGS, data=kafka.data):
        pass
    released = release(kafka.data, 0)
    assert (released.partitions, released.node_id, released.is_new) == (21, 1, False)
    after = image_in(kafka.metadata)
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
    adopt(make_plan(kafka.folders))
    assert kafka.served() == kafka.expected()


def test_a_killed_broker_has_to_be_stopped_first(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    (kafka.data / ".kafka_cleanshutdown").unlink()
    with pytest.raises(AdoptionError, match="start it once more"):
        release(kafka.data, 0)


def test_a_folder_of_several_brokers_is_not_given_back(tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    with pytest.raises(AdoptionError, match="the folder of several brokers"):
        release(tmp_path, 0)


def test_a_folder_that_is_not_penstock_s_is_refused(kafka: Recorded) -> None:
    with pytest.raises(AdoptionError, match="not a data folder of Penstock"):
        release(kafka.data, 0)


def test_a_folder_is_given_back_once(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    release(kafka.data, 0)
    with pytest.raises(AdoptionError, match="Kafka's already"):
        release(kafka.data, 0)


# In a process of its own that is killed, with file operations slow enough for a kill to meet any of them.
SLOWED = """
import os, sys, time
from pathlib import Path
from penstock.adoption.release import release

def slowed(real):
    def call(*arguments, **named):
        time.sleep(0.02)
        result = real(*arguments, **named)
        time.sleep(0.02)
        return result
    return call

for name in ("rename", "replace", "fsync", "rmdir"):
    setattr(os, name, slowed(getattr(os, name)))
print("ready", flush=True)
release(Path(sys.argv[1]), 0)
"""


@pytest.mark.parametrize("is_new", [False, True], ids=["taken over", "never Kafka's"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
def test_killed_again_and_again_it_is_finished_in_the_end(
    kafka: Recorded, tmp_path: Path, seed: int, is_new: bool
) -> None:
    rng = random.Random(seed)
    data = tmp_path / "own" if is_new else kafka.data
    if is_new:
        with Broker(data=data):
            pass
    else:
        adopt(make_plan(kafka.folders))
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", SLOWED, str(data)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
        assert not ((data / "catalog.sqlite").exists() and (data / "meta.properties").exists())
        if (data / "meta.properties").exists():
            break
    if not (data / "meta.properties").exists():
        release(data, 0)
    assert [path.name for path in data.iterdir() if "kafka-metadata" in path.name] == []
    assert len(make_plan([data]).partitions) == (0 if is_new else 21)


def test_no_broker_starts_on_a_folder_that_is_kafka_s(kafka: Recorded) -> None:
    with pytest.raises(CatalogError, match="penstock adopt"), Broker(CONFIGS, data=kafka.data):
        pass


async def test_configs_that_only_penstock_knows_stay_out_of_kafka(kafka: Recorded) -> None:
    adopt(make_plan(kafka.folders))
    with Broker(CONFIGS, data=kafka.data) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.alter_configs(
                ResourceType.GROUP,
                "workers",
                {"penstock.share.retry.backoff.ms": "200", "share.isolation.level": "read_committed"},
            )
    released = release(kafka.data, 0)
    assert released.notes == [
        "penstock.share.retry.backoff.ms=200 of group 'workers' is left out: Kafka does not know it"
    ]
    assert image_in(kafka.metadata).configs[ResourceType.GROUP, "workers"] == {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
    }


def test_the_quorum_goes_on_in_the_folder_that_has_the_metadata_now(kafka: Recorded) -> None:
    adopt(make_plan([kafka.more, kafka.data]))
    release(kafka.more, 0)
    log = read_metadata(kafka.more / METADATA_FOLDER, was_stopped_cleanly=True)
    (voters,) = (value for value in log.quorum.values() if len(value) > 20)
    (voter,) = decode(m.VotersRecord, voters, 0).voters
    assert voter.voter_directory_id == KafkaFolder.open(kafka.more).directory_bytes


def apart(kafka: Recorded) -> Path:
    """The metadata log in the folder of a controller."""
    controller = kafka.root / "controller"
    controller.mkdir()
    kafka.metadata.rename(controller / METADATA_FOLDER)
    return controller


def test_a_controller_apart_gets_the_metadata(kafka: Recorded) -> None:
    controller = apart(kafka)
    adopt(make_plan(kafka.folders, controller))
    released = release(kafka.data, 0)
    assert released.metadata == controller
    assert not (kafka.data / "kafka-metadata").exists()
    assert len(image_in(controller / METADATA_FOLDER).topics) == 7
    assert len(list((controller / METADATA_FOLDER).glob("*.checkpoint"))) == 2
    adopt(make_plan(kafka.folders, controller))
    assert kafka.served() == kafka.expected()


def test_a_controller_that_has_moved_has_to_be_named(kafka: Recorded) -> None:
    controller = apart(kafka)
    adopt(make_plan(kafka.folders, controller))
    moved = controller.rename(kafka.root / "moved")
    with pytest.raises(AdoptionError, match="--metadata"):
        release(kafka.data, 0)
    assert release(kafka.data, 0, controller=moved).metadata == moved


async def test_a_folder_that_kafka_never_had_gets_a_metadata_log(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("made-here", 3, configs={"retention.ms": "5000"})])
    released = release(tmp_path, 0, node_id=4)
    assert (released.is_new, released.node_id) == (True, 4)
    log = read_metadata(tmp_path / METADATA_FOLDER, was_stopped_cleanly=True)
    assert log.image.features["metadata.version"] == 30
    (topic,) = log.image.topics.values()
    assert (topic.name, sorted(topic.partitions)) == ("made-here", [0, 1, 2])
    assert log.image.topic_configs("made-here") == {"retention.ms": "5000"}
    assert KafkaFolder.open(tmp_path).node_id == 4
    adopt(make_plan([tmp_path]))
    with Broker({"node.id": "4"}, data=tmp_path):
        pass
    assert release(tmp_path, 0).node_id == 4
