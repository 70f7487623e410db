"""The catalog: what it is told it still knows when it is opened again."""

from __future__ import annotations

import base64
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.catalog import Catalog, CatalogError, ResourceType, TopicExists, TopicRow, UnknownTopic

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(path: Path) -> Catalog:
    return Catalog.open(path)


def _reopened(path: Path) -> Catalog:
    return Catalog.open(path)


def test_a_cluster_keeps_its_id(path: Path) -> None:
    with Catalog.open(path) as first:
        cluster_id = first.cluster_id
    assert len(cluster_id) == 22
    assert len(base64.urlsafe_b64decode(cluster_id + "==")) == 16
    assert _reopened(path).cluster_id == cluster_id


def test_two_clusters_have_two_ids(tmp_path: Path) -> None:
    assert Catalog.open(tmp_path / "a").cluster_id != Catalog.open(tmp_path / "b").cluster_id


def test_a_cluster_id_can_be_chosen_once(path: Path) -> None:
    Catalog.open(path, "MkU3OEVBNTcwNTJENDM2Qk").close()
    assert Catalog.open(path, "MkU3OEVBNTcwNTJENDM2Qk").cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    with pytest.raises(CatalogError, match="belongs to cluster"):
        Catalog.open(path, "other-other-other-oth1")


def test_a_topic_is_found_by_name_and_by_id_after_a_restart(catalog: Catalog, path: Path) -> None:
    row = catalog.create_topic("orders", ID, 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    catalog.create_topic("a-topic", OTHER_ID, 1, {})
    catalog.close()
    again = _reopened(path)
    assert row == TopicRow("orders", ID, 3, {"cleanup.policy": "compact", "retention.ms": "5"}, 0)
    assert again.topic("orders") == row
    assert again.topic_by_id(ID) == row
    assert [topic.name for topic in again.topics()] == ["a-topic", "orders"]
    assert again.topic("nope") is None
    assert again.topic_by_id(bytes(16)) is None


def test_names_and_ids_are_taken_once(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "b"})
    with pytest.raises(TopicExists):
        catalog.create_topic("orders", OTHER_ID, 1, {})
    with pytest.raises(TopicExists):
        catalog.create_topic("payments", ID, 1, {})
    assert catalog.topics() == [TopicRow("orders", ID, 1, {"a": "b"})]


def test_a_topic_that_cannot_be_is_not_half_created(catalog: Catalog) -> None:
    with pytest.raises(CatalogError):
        catalog.create_topic("orders", ID, 0, {})
    with pytest.raises(CatalogError):
        catalog.create_topic("orders", b"short", 1, {})
    assert catalog.topics() == []


def test_a_topic_grows_and_never_shrinks(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 3, {})
    catalog.set_partitions(ID, 7)
    with pytest.raises(ValueError, match="shrink"):
        catalog.set_partitions(ID, 6)
    assert catalog.topics()[0].partitions == 7
    with pytest.raises(UnknownTopic):
        catalog.set_partitions(OTHER_ID, 7)


def test_a_topics_configs_are_replaced_as_a_whole(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1", "b": "2"})
    catalog.set_topic_configs(ID, {"b": "3", "c": ""})
    assert catalog.topics()[0].configs == {"b": "3", "c": ""}
    with pytest.raises(UnknownTopic):
        catalog.set_topic_configs(OTHER_ID, {})


def test_a_deleted_topic_leaves_nothing_behind(catalog: Catalog, path: Path) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.delete_topic(ID)
    assert catalog.topics() == []
    with pytest.raises(UnknownTopic):
        catalog.delete_topic(ID)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM topic_config").fetchone() == (0,)


def test_a_topic_marked_for_deletion_is_gone_for_clients_and_frees_its_name(catalog: Catalog, path: Path) -> None:
    catalog.create_topic("orders", ID, 2, {"a": "1"})
    catalog.mark_topic_for_deletion(ID)
    catalog.create_topic("orders", OTHER_ID, 5, {})
    catalog.close()
    again = _reopened(path)
    assert [topic.topic_id for topic in again.topics()] == [OTHER_ID]
    assert again.topic_by_id(ID) is None
    assert again.topics_marked_for_deletion() == [TopicRow("orders", ID, 2, {"a": "1"})]
    with pytest.raises(UnknownTopic):
        again.set_topic_configs(ID, {})
    with pytest.raises(UnknownTopic):
        again.mark_topic_for_deletion(ID)
    again.delete_topic(ID)
    assert again.topics_marked_for_deletion() == []


def test_producer_ids_are_never_given_twice(catalog: Catalog, path: Path) -> None:
    assert catalog.allocate_producer_id_block() == range(0, 1000)
    assert catalog.allocate_producer_id_block(10) == range(1000, 1010)
    catalog.close()
    assert _reopened(path).allocate_producer_id_block() == range(1010, 2010)
    with pytest.raises(ValueError):
        _reopened(path).allocate_producer_id_block(0)


def test_a_brokers_epoch_counts_its_starts(catalog: Catalog, path: Path) -> None:
    assert catalog.register_broker(1).epoch == 1
    catalog.close()
    again = _reopened(path)
    assert again.register_broker(1).epoch == 2
    assert again.register_broker(7).epoch == 1
    assert [(row.node_id, row.epoch) for row in again.brokers()] == [(1, 2), (7, 1)]


def test_dynamic_configs_are_kept_by_resource(catalog: Catalog, path: Path) -> None:
    catalog.set_configs(ResourceType.BROKER, "", {"log.retention.ms": "5"})
    catalog.set_configs(ResourceType.BROKER, "1", {"message.max.bytes": "100", "log.retention.ms": "6"})
    catalog.set_configs(ResourceType.GROUP, "g", {"share.auto.offset.reset": "earliest"})
    catalog.close()
    again = _reopened(path)
    assert again.configs(ResourceType.BROKER, "") == {"log.retention.ms": "5"}
    assert again.configs(ResourceType.BROKER, "2") == {}
    assert again.config_resources(ResourceType.BROKER) == {
        "": {"log.retention.ms": "5"},
        "1": {"log.retention.ms": "6", "message.max.bytes": "100"},
    }
    again.set_configs(ResourceType.BROKER, "1", {})
    assert list(again.config_resources(ResourceType.BROKER)) == [""]
    assert list(again.config_resources(ResourceType.GROUP)) == ["g"]


def test_it_is_written_through_to_the_disk_before_it_answers(catalog: Catalog) -> None:
    connection = catalog._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_what_was_answered_survives_a_kill(path: Path) -> None:
    program = (
        "import sys; from penstock.catalog import Catalog\n"
        "c = Catalog.open(sys.argv[1])\n"
        "c.create_topic('orders', bytes(16), 4, {'a': 'b'})\n"
        "print(c.allocate_producer_id_block().stop, flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1000\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    again = _reopened(path)
    assert again.topics() == [TopicRow("orders", bytes(16), 4, {"a": "b"})]
    assert again.allocate_producer_id_block().start == 1000


def test_a_full_disk_is_said_and_changes_nothing(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {})
    pages = catalog._connection.execute("PRAGMA page_count").fetchone()[0]
    catalog._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CatalogError, match="full"):
        catalog.set_topic_configs(ID, {f"name-{i}": "v" * 1000 for i in range(100)})
    assert catalog.topics() == [TopicRow("orders", ID, 1, {})]
    catalog._connection.execute("PRAGMA max_page_count = 100000")
    catalog.set_topic_configs(ID, {"a": "b"})
    assert catalog.topics()[0].configs == {"a": "b"}


def test_a_folder_that_is_not_there_is_said() -> None:
    with pytest.raises(CatalogError, match="cannot open the catalog"):
        Catalog.open("/nowhere/at/all/catalog.db")


def test_features_that_were_changed_are_kept_and_their_changes_counted(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert (catalog.features(), catalog.features_epoch()) == ({}, 1)
        assert catalog.set_features({"share.version": 0, "group.version": 0}) == 2
        assert catalog.set_features({"share.version": 1}) == 3
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert (catalog.features(), catalog.features_epoch()) == ({"group.version": 0, "share.version": 1}, 3)
