"""The group coordinator over an internal topic in memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig
from penstock.broker.group_coordinator import GroupCoordinator, GroupTopics
from penstock.broker.topics import Topic
from penstock.broker.world import SteadyTime
from penstock.coordination.context import RequestContext
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, NotCoordinator
from tests.broker.simulated_world import SimulatedWorld
from tests.coordination.simulated import SimulatedTopic

TOPIC_ID = bytes(15) + b"\1"


def cluster_with(*topics: Topic) -> ClusterView:
    cluster = ClusterView("a cluster", 0, None)
    for topic in topics:
        cluster.add_topic(topic)
    return cluster


class Coordinated:
    def __init__(self) -> None:
        self.cluster = cluster_with(Topic("orders", TOPIC_ID, {}, 2), Topic("__consumer_offsets", bytes(16), {}, 1))
        self.configs = SimpleNamespace(
            broker=BrokerConfig({"group.max.size": "7"}), listeners=[], group_overrides=lambda group: {}
        )
        self.asked_for: list[object] = []
        self.time = SimulatedWorld()
        self.coordinator = GroupCoordinator(
            self.configs,  # type: ignore[arg-type]
            self.cluster,
            self._make_topic,
            SteadyTime(self.time),
            self.time.new_id,
            lambda handle, action: self.asked_for.append(action),
        )
        self.coordinator.start()

    def _make_topic(self, name: str, partitions: int, replication_factor: int, configs: object) -> SimulatedTopic:
        assert name == "__consumer_offsets"
        return SimulatedTopic(partitions)

    def commit(self, group_id: str, offset: int) -> ErrorCode:
        request = m.OffsetCommitRequest
        partition = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = request.OffsetCommitRequestTopic(name="orders", topic_id=TOPIC_ID, partitions=[partition])
        body = request(group_id=group_id, generation_id_or_member_epoch=-1, topics=[topic])
        responses: list[m.OffsetCommitResponse] = []
        handle = self.coordinator.find(group_id)
        handle.run(handle.shard.offset_commit(responses.append, RequestContext(self.time.now_ms(), 9), body))
        return ErrorCode(responses[0].topics[0].partitions[0].error_code)

    def metrics(self) -> dict[str, float]:
        return {
            each.name: each.samples[0][1] for each in self.coordinator.metrics() if each is not None and each.samples
        }


def test_groups_are_served_and_counted() -> None:
    world = Coordinated()
    assert world.commit("g", 7) == ErrorCode.NONE
    assert world.commit("h", 7) == ErrorCode.NONE
    assert world.metrics()["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 2
    assert world.coordinator.view({}) == ["g", "h"]
    assert world.coordinator.view({"group": "g"}) == []


def test_the_offsets_of_a_deleted_topic_are_forgotten() -> None:
    world = Coordinated()
    world.commit("g", 7)
    world.coordinator.topic_deleted(SimpleNamespace(name="orders", topic_id=TOPIC_ID))  # type: ignore[arg-type]
    assert world.metrics()["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 0


def test_nobody_coordinates_groups_before_the_offsets_topic_exists() -> None:
    world = Coordinated()
    world.cluster.remove_topic(world.cluster.topic("__consumer_offsets"))
    with pytest.raises(NotCoordinator):
        world.coordinator.find("g")


def test_settings_follow_the_broker_configs() -> None:
    world = Coordinated()
    assert world.coordinator.settings.group_max_size == 7
    world.configs.broker.group_max_size = 9
    for listener in world.configs.listeners:
        listener()
    assert world.coordinator.settings.group_max_size == 9


def test_a_share_group_turns_to_the_share_coordinator() -> None:
    world = Coordinated()
    handle = world.coordinator.find("g")
    body = m.ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders"])
    responses: list[m.ShareGroupHeartbeatResponse] = []
    handle.run(handle.shard.share_group_heartbeat(responses.append, RequestContext(world.time.now_ms(), 1), body))
    assert len(world.asked_for) == 1
    assert responses == []


def test_groups_see_the_topics_and_every_change_of_them() -> None:
    cluster = cluster_with(Topic("orders", TOPIC_ID, {}, 2))
    view = GroupTopics(cluster)
    assert (view.topic_id("orders"), view.topic_name(TOPIC_ID), view.partition_count("orders")) == (
        TOPIC_ID,
        "orders",
        2,
    )
    assert (view.topic_id("none"), view.topic_name(bytes(16)), view.partition_count("none")) == (None, None, 0)
    cluster.topics_changed()
    assert view.version == 1
