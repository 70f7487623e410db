"""Topics and partitions: what exists, what is hosted here, who waits, and which names there can be."""

from __future__ import annotations

import pytest

from penstock.broker.topics import INTERNAL_TOPICS, MAX_NAME, Partition, Topic, check_name, leader_epoch_error
from penstock.records.builder import build_batch
from penstock.storage.contract import LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.wire.errors import (
    FencedLeaderEpoch,
    InvalidTopic,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)

NOW_MS = 1_000_000


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(lambda callback: callback())


@pytest.fixture
def topic(storage: MemoryStorage) -> Topic:
    """Three partitions, of which this broker hosts the first and the last."""
    topic = Topic("orders", bytes(16), {}, 3)
    for index in (0, 2):
        topic.host(Partition(topic, index, storage.open_log("orders", index, topic.topic_id, LogConfig())))
    return topic


class Waiter:
    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


def batch() -> bytearray:
    return build_batch([(NOW_MS, b"key", b"value", ())])


class TestHosting:
    def test_a_partition_that_is_hosted_here_is_found(self, topic: Topic) -> None:
        assert topic.hosted(2).index == 2
        assert [partition.index for partition in topic.hosted_partitions()] == [0, 2]

    def test_who_asks_for_one_that_another_broker_hosts_is_sent_there(self, topic: Topic) -> None:
        assert topic.has_partition(1)
        with pytest.raises(NotLeaderOrFollower):
            topic.hosted(1)

    @pytest.mark.parametrize("index", [-1, 3])
    def test_one_that_does_not_exist_is_unknown(self, topic: Topic, index: int) -> None:
        assert not topic.has_partition(index)
        with pytest.raises(UnknownTopicOrPartition):
            topic.hosted(index)


class TestWaiting:
    def test_each_who_waits_is_woken_once_though_another_fails(self, topic: Topic) -> None:
        class Fails(Waiter):
            def wake(self) -> None:
                super().wake()
                raise ValueError("a fault of this one alone")

        partition = topic.hosted(0)
        waiters = [Fails(), Waiter(), Fails(), Waiter()]
        partition.waiters |= dict.fromkeys(waiters)
        partition.wake()
        partition.wake()
        assert [waiter.wakes for waiter in waiters] == [1, 1, 1, 1]

    def test_who_waits_again_while_being_woken_is_woken_the_next_time(self, topic: Topic) -> None:
        partition = topic.hosted(0)

        class Returns(Waiter):
            def wake(self) -> None:
                super().wake()
                partition.waiters[self] = None

        waiter = Returns()
        partition.waiters[waiter] = None
        partition.wake()
        assert waiter.wakes == 1
        partition.wake()
        assert waiter.wakes == 2

    def test_records_of_the_broker_itself_wake_readers(self, topic: Topic) -> None:
        partition, waiter = topic.hosted(0), Waiter()
        partition.waiters[waiter] = None
        assert partition.append_internal(batch(), NOW_MS).base_offset == 0
        assert waiter.wakes == 1

    def test_a_high_watermark_that_moves_by_itself_wakes_readers(self, topic: Topic, storage: MemoryStorage) -> None:
        partition, waiter = topic.hosted(0), Waiter()
        storage.hold_commits()
        partition.append_internal(batch(), NOW_MS)
        partition.waiters[waiter] = None
        storage.commit()
        assert waiter.wakes == 1


def test_the_leader_epoch_of_a_partition_is_that_of_its_log(topic: Topic) -> None:
    log = topic.hosted(0).log
    assert isinstance(log, MemoryLog)
    log.leader_epoch = 5
    assert topic.hosted(0).leader_epoch == 5


def test_the_topics_of_coordinators_are_internal(topic: Topic) -> None:
    assert all(Topic(name, bytes(16), {}, 1).is_internal for name in INTERNAL_TOPICS)
    assert not topic.is_internal


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * MAX_NAME, "..."])
def test_names_that_a_topic_may_have(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * (MAX_NAME + 1), "a/b", "a b", "ä", "a\n"])
def test_names_that_a_topic_may_not_have(name: str) -> None:
    with pytest.raises(InvalidTopic, match="Topic name is invalid"):
        check_name(name)


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown() -> None:
    assert isinstance(leader_epoch_error(1, 2), FencedLeaderEpoch)
    assert isinstance(leader_epoch_error(3, 2), UnknownLeaderEpoch)


def test_a_partition_that_is_lost_is_not_hosted_until_it_is_back(storage: MemoryStorage, topic: Topic) -> None:
    partition = topic.hosted(2)
    assert isinstance(partition.log, MemoryLog)
    waiter = Waiter()
    heard: list[bool] = []
    partition.on_leadership = lambda each: heard.append(each.log.is_leader)
    partition.waiters[waiter] = None
    storage.lose_leadership(partition.log)
    with pytest.raises(NotLeaderOrFollower):
        topic.hosted(2)
    assert waiter.wakes == 1
    assert [each.index for each in topic.hosted_partitions()] == [0]
    assert [each.index for each in topic.open_partitions()] == [0, 2]
    storage.gain_leadership(partition.log)
    assert topic.hosted(2) is partition
    assert heard == [False, True]
