"""What a broker knows of its cluster: addresses, topics, leaders, and what is hosted here."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.broker.cluster_view import BrokerEndpoint, ClusterView
from penstock.broker.listeners import Address
from penstock.broker.topics import Partition, Topic
from penstock.catalog.shared import BrokerRow, HostAndPort, PartitionRow
from penstock.storage.contract import Log
from penstock.wire.errors import InvalidTopic, NotLeaderOrFollower, UnknownTopicOrPartition

NODE = 7


class EmptyLog:
    leader_epoch = 4
    on_high_watermark = on_leadership = None
    is_leader = True
    size = log_start_offset = log_end_offset = 0


def other_broker(node_id: int, *, is_live: bool = True) -> BrokerRow:
    return BrokerRow(node_id, 1, "instance", None, {"PLAINTEXT": HostAndPort("elsewhere", node_id)}, is_live)


@pytest.fixture
def view() -> ClusterView:
    view = ClusterView("cluster", NODE, "cellar")
    view.advertise("PLAINTEXT", Address("PLAINTEXT", "inside", 9092))
    view.advertise("OUTSIDE", Address("OUTSIDE", "example.org", 19092))
    return view


def topic(name: str, partitions: int, *hosted: int) -> Topic:
    topic = Topic(name, name.encode().ljust(16, b"."), {}, partitions)
    for index in hosted:
        topic.host(Partition(topic, index, cast(Log, EmptyLog())))
    return topic


class TestBrokers:
    def test_clients_are_told_the_address_of_the_listener_through_which_they_came(self, view: ClusterView) -> None:
        assert view.brokers("PLAINTEXT") == [BrokerEndpoint(NODE, "inside", 9092, "cellar")]
        assert view.brokers("OUTSIDE") == [BrokerEndpoint(NODE, "example.org", 19092, "cellar")]

    def test_any_of_the_addresses_is_good_for_a_start(self, view: ClusterView) -> None:
        assert view.bootstrap == "inside:9092,example.org:19092"

    def test_without_its_lease_a_broker_sends_clients_to_the_others(self, view: ClusterView) -> None:
        view.set_brokers([other_broker(5), other_broker(9)])
        everybody = [5, NODE, 9]
        assert [each.node_id for each in view.brokers("PLAINTEXT")] == everybody
        orders = topic("orders", 1)
        view.set_rows(orders, [PartitionRow(orders.topic_id, 0, 5, 3, (NODE, 5))])
        assert view.in_sync_replicas(orders, 0) == [NODE, 5]
        view.holds_lease = lambda: False
        assert [each.node_id for each in view.brokers("PLAINTEXT")] == [5, 9]
        assert view.in_sync_replicas(orders, 0) == [5]
        view.set_brokers([other_broker(9)])
        assert view.controller_id == 9
        view.holds_lease = lambda: True
        assert view.controller_id == NODE

    def test_clients_stay_with_a_broker_without_lease_if_there_is_no_other(self, view: ClusterView) -> None:
        view.holds_lease = lambda: False
        view.set_brokers([other_broker(9, is_live=False)])
        assert [each.node_id for each in view.brokers("PLAINTEXT")] == [NODE]
        assert view.controller_id == NODE
        view.set_brokers([other_broker(9)])
        assert [each.node_id for each in view.brokers("OUTSIDE")] == [NODE], "the other has no such listener"


class TestTopics:
    def test_a_topic_is_found_by_name_and_by_id_until_it_is_removed(self, view: ClusterView) -> None:
        orders = topic("orders", 1, 0)
        view.add_topic(orders)
        assert view.find_topic("orders") is view.topic("orders") is view.topic_by_id(orders.topic_id) is orders
        view.remove_topic(orders)
        assert view.find_topic("orders") is view.topic_by_id(orders.topic_id) is None
        assert view.topics() == []

    def test_a_topic_that_does_not_exist_is_unknown_and_one_that_cannot_is_invalid(self, view: ClusterView) -> None:
        with pytest.raises(UnknownTopicOrPartition):
            view.topic("nowhere")
        with pytest.raises(InvalidTopic):
            view.topic("no/topic")

    def test_topics_come_by_name(self, view: ClusterView) -> None:
        for name in ("b", "c", "a"):
            view.add_topic(topic(name, 1))
        assert [each.name for each in view.topics()] == ["a", "b", "c"]

    def test_names_collide_that_differ_in_dots_and_underscores_only(self, view: ClusterView) -> None:
        for name in ("a.b", "ab", "a-b"):
            view.add_topic(topic(name, 1))
        assert view.colliding_topics("a_b") == ["a.b"]
        assert view.colliding_topics("a.b") == view.colliding_topics("abc") == []

    def test_whoever_wants_to_know_is_told_of_changes(self, view: ClusterView) -> None:
        notified: list[str] = []
        view.on_topics_changed.append(lambda: notified.append("changed"))
        view.topics_changed()
        assert notified == ["changed"]


class TestPartitions:
    def test_a_partition_that_exists_elsewhere_is_not_led_from_here(self, view: ClusterView) -> None:
        view.add_topic(topic("orders", 2, 0))
        assert view.hosted("orders", 0).index == 0
        with pytest.raises(NotLeaderOrFollower):
            view.hosted("orders", 1)

    @pytest.mark.parametrize(("name", "index"), [("orders", 2), ("orders", -1), ("nowhere", 0)])
    def test_a_partition_that_does_not_exist_is_unknown(self, view: ClusterView, name: str, index: int) -> None:
        view.add_topic(topic("orders", 2, 0))
        with pytest.raises(UnknownTopicOrPartition):
            view.hosted(name, index)

    def test_all_that_is_hosted_here(self, view: ClusterView) -> None:
        view.add_topic(topic("b", 3, 1))
        view.add_topic(topic("a", 2, 0, 1))
        assert [(each.topic.name, each.index) for each in view.hosted_partitions()] == [("a", 0), ("a", 1), ("b", 1)]

    def test_the_only_broker_leads_and_keeps_what_it_hosts(self, view: ClusterView) -> None:
        orders = topic("orders", 1, 0)
        assert view.leader(orders, 0) == (NODE, EmptyLog.leader_epoch)
        assert view.replicas(orders, 0) == [NODE]
        assert view.controller_id == NODE
