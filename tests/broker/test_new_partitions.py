"""The answer about new partitions comes when they are led, and not much later whatever happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.new_partitions import NewPartitions
from penstock.broker.requests import Pending, Request
from penstock.broker.topics import Partition, Topic
from penstock.storage.contract import LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.wire import messages as m
from tests.broker.simulated_world import SimulatedWorld

ANSWER = m.CreateTopicsResponse()


class Stage:
    def __init__(self) -> None:
        self.world = SimulatedWorld()
        self.storage = MemoryStorage(self.world.call_soon)
        self.cluster = ClusterView("c", 1, None)
        self.new_partitions = NewPartitions(self.cluster, self.world)
        self.answers: list[object] = []

    def topic(self, name: str, *, led: bool) -> Topic:
        topic = Topic(name, name.encode().ljust(16), {}, 2)
        for index in range(2):
            log = self.storage.open_log(name, index, topic.topic_id, LogConfig())
            log.is_leader = led
            partition = Partition(topic, index, log)
            partition.on_leadership = self.cluster.leadership_changed
            topic.host(partition)
        return topic

    def when_led(self, *topics: Topic, timeout_ms: int = 1000) -> object:
        connection = SimpleNamespace(closed=False, respond=lambda request, response: self.answers.append(response))
        request: Request[Any] = Request(connection, 19, 7, 1, "c", m.CreateTopicsRequest(), [None])  # type: ignore[arg-type]
        return self.new_partitions.when_led(request, ANSWER, topics, timeout_ms)

    def lead(self, topic: Topic, index: int) -> None:
        log = topic.open_partitions()[index].log
        assert isinstance(log, MemoryLog)
        self.storage.gain_leadership(log)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_partitions_that_are_led_are_not_waited_for(stage: Stage) -> None:
    assert stage.when_led(stage.topic("orders", led=True)) is ANSWER


def test_the_answer_comes_with_the_last_partition_that_is_led(stage: Stage) -> None:
    one, other = stage.topic("orders", led=False), stage.topic("parcels", led=False)
    assert isinstance(stage.when_led(one, other), Pending)
    for topic, index in ((one, 0), (one, 1), (other, 1)):
        stage.lead(topic, index)
        assert stage.answers == []
    stage.lead(other, 0)
    assert stage.answers == [ANSWER]
    stage.world.pass_ms(10_000)
    assert stage.answers == [ANSWER]


def test_a_partition_that_another_broker_takes_over_is_not_waited_for(stage: Stage) -> None:
    topic = stage.topic("orders", led=False)
    stage.when_led(topic)
    stage.lead(topic, 0)
    taken = topic.open_partitions()[1]
    topic.give_up(taken)
    stage.cluster.leadership_changed(taken)
    assert stage.answers == [ANSWER]


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(1000, 1000), (600_000, 5000)])
def test_nobody_waits_longer_than_the_request_says_nor_than_five_seconds(
    stage: Stage, timeout_ms: int, waits_ms: int
) -> None:
    stage.when_led(stage.topic("orders", led=False), timeout_ms=timeout_ms)
    stage.world.pass_ms(waits_ms - 1)
    assert stage.answers == []
    stage.world.pass_ms(1)
    assert stage.answers == [ANSWER]


def test_a_request_that_leaves_no_time_is_answered_at_once(stage: Stage) -> None:
    assert stage.when_led(stage.topic("orders", led=False), timeout_ms=0) is ANSWER
