"""Topics are created, grown, deleted and configured in catalog and storage alike, in an order that survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig, Configs
from penstock.broker.config.configs import ALL_BROKERS
from penstock.broker.topic_manager import TopicManager
from penstock.broker.topics import MAX_PARTITIONS, OFFSETS_TOPIC, Topic
from penstock.catalog.contract import replaced_by
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import Placement
from penstock.storage.contract import Log, LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.wire.errors import (
    InvalidPartitions,
    InvalidTopic,
    KafkaStorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tests.broker.simulated_world import SimulatedWorld


class WatchedCatalog(MemoryCatalog):
    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    def create_topic(self, *args: object) -> None:
        super().create_topic(*args)  # type: ignore[arg-type]
        self._steps.append("catalog")

    def set_partitions(self, topic_id: bytes, partitions: int, placements: Sequence[Placement] = ()) -> None:
        super().set_partitions(topic_id, partitions, placements)
        self._steps.append("catalog")

    def delete_topic(self, topic_id: bytes) -> None:
        super().delete_topic(topic_id)
        self._steps.append("catalog")


class WatchedStorage(MemoryStorage):
    def __init__(self, steps: list[str]) -> None:
        super().__init__(lambda callback: callback())
        self._steps = steps

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> MemoryLog:
        self._steps.append(f"open {partition}")
        return super().open_log(topic, partition, topic_id, config)

    def delete_log(self, log: Log) -> Callable[[], None]:
        self._steps.append(f"delete {log.partition}")
        super().delete_log(log)
        return lambda: self._steps.append(f"free {log.partition}")

    def names(self) -> list[str]:
        return sorted(f"{log.topic}-{log.partition}" for log in self.logs())


class Shell:
    """A topic manager over catalog and storage in memory; `steps` is what happened to them, in order."""

    def __init__(self, broker_configs: dict[str, str] | None = None) -> None:
        self.steps: list[str] = []
        self.catalog = WatchedCatalog(self.steps)
        self.storage = WatchedStorage(self.steps)
        self.broker_configs = broker_configs or {}
        self.changes = 0
        self.start()

    def start(self) -> None:
        self.cluster = ClusterView("cluster", 1, None)
        self.cluster.on_topics_changed.append(self._count)
        self.configs = Configs(BrokerConfig(self.broker_configs), self.catalog)
        self.topics = TopicManager(self.cluster, self.storage, self.catalog, self.configs, SimulatedWorld())

    def _count(self) -> None:
        self.changes += 1


@pytest.fixture
def shell() -> Shell:
    return Shell()


class TestCreating:
    def test_the_catalog_learns_of_a_topic_when_its_logs_are_there(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 2, {"retention.ms": "5"})
        assert shell.steps == ["open 0", "open 1", "catalog"]
        assert shell.cluster.find_topic("orders") is topic
        assert [partition.index for partition in topic.hosted_partitions()] == [0, 1]
        [row] = shell.catalog.topics()
        assert (row.name, row.topic_id, row.partitions) == ("orders", topic.topic_id, 2)
        assert row.configs == {"retention.ms": "5"}
        assert shell.changes == 1

    def test_the_configs_of_a_topic_hold_for_its_logs(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {"retention.ms": "5", "max.message.bytes": "1000"})
        assert topic.hosted(0).log.config.retention_ms == 5  # type: ignore[attr-defined]
        assert topic.rules.max_message_bytes == 1000

    def test_a_topic_that_the_catalog_refuses_leaves_nothing_behind(self, shell: Shell) -> None:
        shell.catalog.refuse_changes("the disk is full")
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            shell.topics.create("orders", 2, {})
        assert shell.steps == ["open 0", "open 1", "delete 0", "delete 1", "free 0", "free 1"]
        assert shell.storage.names() == []
        assert shell.cluster.topics() == []
        assert shell.catalog.topics() == []
        assert shell.changes == 0

    def test_a_name_that_is_taken_or_a_number_that_cannot_be_is_refused_before_anything_happens(
        self, shell: Shell
    ) -> None:
        shell.topics.create("orders", 1, {})
        shell.steps.clear()
        with pytest.raises(TopicAlreadyExists):
            shell.topics.create("orders", 1, {})
        for number in (0, -1, MAX_PARTITIONS + 1):
            with pytest.raises(InvalidPartitions):
                shell.topics.create("more", number, {})
        assert shell.steps == []

    def test_after_a_restart_the_topics_of_the_catalog_are_there(self, shell: Shell) -> None:
        topic_id = shell.topics.create("orders", 2, {"retention.ms": "5"}).topic_id
        shell.storage.close()
        shell.start()
        assert shell.cluster.topics() == []
        shell.topics.open_all()
        topic = shell.cluster.topic("orders")
        assert topic.topic_id == topic_id
        assert topic.log_config.retention_ms == 5
        assert shell.storage.names() == ["orders-0", "orders-1"]


class TestCreatingByAsking:
    def test_the_topic_gets_the_default_number_of_partitions_and_is_created_once(self) -> None:
        shell = Shell({"num.partitions": "3"})
        topic = shell.topics.get_or_create("orders")
        assert topic.partition_count == 3
        assert shell.topics.get_or_create("orders") is topic

    def test_nothing_is_created_where_that_is_switched_off(self) -> None:
        shell = Shell({"auto.create.topics.enable": "false"})
        with pytest.raises(UnknownTopicOrPartition):
            shell.topics.get_or_create("orders")
        assert shell.steps == []

    def test_internal_topics_are_not_created_by_asking(self, shell: Shell) -> None:
        with pytest.raises(UnknownTopicOrPartition):
            shell.topics.get_or_create(OFFSETS_TOPIC)

    def test_a_name_that_metrics_could_not_tell_from_another_is_refused(self, shell: Shell) -> None:
        shell.topics.create("a.b", 1, {})
        with pytest.raises(InvalidTopic, match=r"a\.b"):
            shell.topics.get_or_create("a_b")
        with pytest.raises(InvalidTopic):
            shell.topics.get_or_create("no/topic")


class TestGrowing:
    def test_the_catalog_learns_of_partitions_when_their_logs_are_there(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {})
        shell.steps.clear()
        shell.topics.grow(topic, 3)
        assert shell.steps == ["open 1", "open 2", "catalog"]
        assert topic.partition_count == shell.catalog.topics()[0].partitions == 3
        assert topic.hosted(2).index == 2
        assert shell.changes == 2

    def test_partitions_that_the_catalog_refuses_leave_nothing_behind(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {})
        shell.catalog.refuse_changes("the disk is full")
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            shell.topics.grow(topic, 3)
        assert shell.storage.names() == ["orders-0"]
        assert topic.partition_count == 1
        assert len(topic.hosted_partitions()) == 1


class TestDeleting:
    def test_the_catalog_forgets_a_topic_before_its_logs_go(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 2, {})
        shell.steps.clear()
        shell.topics.delete(topic)
        assert shell.steps == ["catalog", "delete 0", "delete 1", "free 0", "free 1"]
        assert shell.cluster.find_topic("orders") is None
        assert shell.changes == 2

    def test_who_listens_can_still_look_the_topic_up_and_a_failure_costs_nobody_else(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {})
        found: list[Topic | None] = []

        def fail(_: Topic) -> None:
            raise ValueError("a fault of this listener alone")

        shell.topics.on_topic_deleted += [fail, lambda each: found.append(shell.cluster.find_topic(each.name))]
        shell.topics.delete(topic)
        assert found == [topic]

    def test_a_topic_that_the_catalog_keeps_stays_and_nobody_hears_of_it(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {})
        heard: list[Topic] = []
        shell.topics.on_topic_deleted.append(heard.append)
        shell.catalog.refuse_changes("the disk is full")
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            shell.topics.delete(topic)
        assert heard == []
        assert shell.cluster.find_topic("orders") is topic
        assert shell.storage.names() == ["orders-0"]

    def test_who_waits_for_a_partition_is_woken(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {})
        woken: list[str] = []

        class Waiter:
            def wake(self) -> None:
                woken.append("woken" if shell.cluster.find_topic("orders") is None else "too early")

        topic.hosted(0).waiters[Waiter()] = None
        shell.topics.delete(topic)
        assert woken == ["woken"]

    def test_a_log_that_cannot_be_deleted_does_not_keep_the_others(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = shell.topics.create("orders", 2, {})
        delete = shell.storage.delete_log

        def fail_once(log: Log) -> Callable[[], None]:
            if log.partition == 0:
                raise OSError("a fault of this log alone")
            return delete(log)

        monkeypatch.setattr(shell.storage, "delete_log", fail_once)
        shell.topics.delete(topic)
        assert shell.storage.names() == ["orders-0"]
        assert shell.cluster.find_topic("orders") is None

    def test_the_name_is_free_again_for_an_empty_topic(self, shell: Shell) -> None:
        first = shell.topics.create("orders", 1, {})
        shell.topics.delete(first)
        second = shell.topics.create("orders", 1, {})
        assert second.topic_id != first.topic_id
        assert second.hosted(0).log is not first.hosted(0).log


class TestConfigs:
    def test_a_change_holds_at_once_for_the_open_logs(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {"retention.ms": "5"})
        shell.topics.change_configs(topic, replaced_by({"retention.ms": "7"}))
        assert shell.catalog.topics()[0].configs == topic.configs == {"retention.ms": "7"}
        assert topic.hosted(0).log.config.retention_ms == 7  # type: ignore[attr-defined]

    def test_a_change_that_the_catalog_refuses_does_not_hold(self, shell: Shell) -> None:
        topic = shell.topics.create("orders", 1, {"retention.ms": "5"})
        shell.catalog.refuse_changes("the disk is full")
        with pytest.raises(KafkaStorageError):
            shell.topics.change_configs(topic, replaced_by({"retention.ms": "7"}))
        assert topic.configs == {"retention.ms": "5"}
        assert topic.log_config.retention_ms == 5

    def test_topics_without_a_value_of_their_own_follow_the_broker(self, shell: Shell) -> None:
        follows = shell.topics.create("follows", 1, {})
        keeps = shell.topics.create("keeps", 1, {"retention.ms": "5"})
        shell.configs.change_broker(ALL_BROKERS, replaced_by({"log.retention.ms": "9"}))
        assert follows.hosted(0).log.config.retention_ms == 9  # type: ignore[attr-defined]
        assert keeps.hosted(0).log.config.retention_ms == 5  # type: ignore[attr-defined]
