"""Metadata, DescribeCluster and DescribeTopicPartitions over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.gate import CLUSTER_OPERATIONS, OPERATIONS_NOT_REQUESTED, TOPIC_OPERATIONS
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import ZERO_UUID
from tests.broker.handlers.records import topic_id
from tests.broker.raw import RawClient
from tests.transactions.wire_client import Wire

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NEWEST = 13
NOWHERE = bytes(range(16))
Topic = m.MetadataRequest.MetadataRequestTopic


def metadata(
    wire: Wire, *topics: Topic, version: int = NEWEST, create: bool = False, **others: bool
) -> m.MetadataResponse:
    request = m.MetadataRequest(topics=list(topics), allow_auto_topic_creation=create, **others)
    return wire.ask(request, m.MetadataResponse, version)


def test_clients_learn_where_the_broker_stands() -> None:
    with Broker({"broker.rack": "cellar"}) as broker, RawClient(broker.port) as client:
        metadata = client.ask(m.MetadataRequest(topics=[]), m.MetadataResponse, 12)
        cluster = client.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1)
        (first,), (second,) = metadata.brokers, cluster.brokers
        assert (first.host, first.port, first.rack) == (second.host, second.port, second.rack)
        assert (first.host, first.port, first.rack) == ("127.0.0.1", broker.port, "cellar")
        assert metadata.controller_id == cluster.controller_id == first.node_id == second.broker_id
        assert metadata.cluster_id == cluster.cluster_id


class TestTopics:
    def test_every_partition_is_led_and_kept_by_this_broker(self, wire: Wire, topic: str) -> None:
        response = metadata(wire, Topic(name=topic))
        (found,) = response.topics
        node = response.brokers[0].node_id
        assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in found.partitions] == [
            (index, node, [node], [node]) for index in (0, 1)
        ]

    def test_null_stands_for_all_topics_and_so_does_none_in_version_0(self, wire: Wire, topic: str) -> None:
        everything = wire.ask(m.MetadataRequest(topics=None), m.MetadataResponse, NEWEST)
        assert topic in {each.name for each in everything.topics}
        assert topic in {each.name for each in metadata(wire, version=0, create=True).topics}
        assert metadata(wire, version=1, create=True).topics == []

    def test_a_topic_by_its_id(self, wire: Wire, topic: str) -> None:
        known, unknown = topic_id(wire, topic), NOWHERE
        response = metadata(wire, *[Topic(name=None, topic_id=each) for each in (known, unknown)])
        assert [(each.name, each.error_code) for each in response.topics] == [
            (topic, NONE),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    def test_a_topic_that_is_asked_for_twice_is_answered_once(self, wire: Wire, topic: str) -> None:
        assert len(metadata(wire, Topic(name=topic), Topic(name=topic)).topics) == 1

    def test_names_say_nothing_in_a_request_that_names_an_id(self, wire: Wire, topic: str) -> None:
        response = metadata(wire, Topic(name="nowhere"), Topic(name=None, topic_id=topic_id(wire, topic)))
        assert [each.name for each in response.topics] == [topic]

    def test_before_version_12_an_id_is_an_invalid_request(self, wire: Wire) -> None:
        (refused,) = metadata(wire, Topic(name="x", topic_id=NOWHERE), version=11).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    def test_operations_are_told_when_they_are_requested(self, wire: Wire, topic: str) -> None:
        (without,) = metadata(wire, Topic(name=topic)).topics
        (with_them,) = metadata(wire, Topic(name=topic), include_topic_authorized_operations=True).topics
        assert without.topic_authorized_operations == OPERATIONS_NOT_REQUESTED
        assert with_them.topic_authorized_operations == TOPIC_OPERATIONS


class TestCreatingByAsking:
    def test_a_missing_topic_is_created_and_answered_at_once(self, wire: Wire, name: str) -> None:
        (made,) = metadata(wire, Topic(name=name), create=True).topics
        assert (made.error_code, len(made.partitions)) == (NONE, 1)
        assert made.topic_id == topic_id(wire, name) != ZERO_UUID

    def test_not_when_the_client_does_not_allow_it(self, wire: Wire, name: str) -> None:
        for _ in range(2):
            assert metadata(wire, Topic(name=name)).topics[0].error_code == UNKNOWN

    def test_not_when_the_broker_does_not_allow_it(self) -> None:
        with Broker({"auto.create.topics.enable": "false"}) as broker:
            wire = Wire(broker.port)
            assert metadata(wire, Topic(name="new"), create=True).topics[0].error_code == UNKNOWN
            wire.close()

    @pytest.mark.parametrize("wrong", ["no/topic", "", "..", "x" * 250])
    def test_not_under_a_name_that_no_topic_can_have(self, wire: Wire, wrong: str) -> None:
        (refused,) = metadata(wire, Topic(name=wrong), create=True).topics
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_not_under_a_name_that_collides(self, wire: Wire, name: str) -> None:
        metadata(wire, Topic(name=f"{name}.a"), create=True)
        (refused,) = metadata(wire, Topic(name=f"{name}_a"), create=True).topics
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_an_internal_topic_is_not_created_by_asking(self, wire: Wire) -> None:
        (refused,) = metadata(wire, Topic(name="__share_group_state"), create=True).topics
        assert (refused.error_code, refused.is_internal) == (UNKNOWN, True)


class TestDescribeCluster:
    @pytest.mark.parametrize(
        ("endpoint_type", "error"),
        [(1, NONE), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_it_knows_brokers_only(self, wire: Wire, endpoint_type: int, error: ErrorCode) -> None:
        request = m.DescribeClusterRequest(endpoint_type=endpoint_type)
        assert wire.ask(request, m.DescribeClusterResponse, 1).error_code == error

    def test_operations_are_told_when_they_are_requested(self, wire: Wire) -> None:
        for wanted, bits in ((False, OPERATIONS_NOT_REQUESTED), (True, CLUSTER_OPERATIONS)):
            request = m.DescribeClusterRequest(include_cluster_authorized_operations=wanted)
            assert wire.ask(request, m.DescribeClusterResponse, 1).cluster_authorized_operations == bits


class TestDescribeTopicPartitions:
    Request = m.DescribeTopicPartitionsRequest
    Page = tuple[list[tuple[str | None, list[int]]], tuple[str, int] | None]

    @pytest.fixture
    def wire(self) -> Iterator[Wire]:
        with Broker({"max.request.partition.size.limit": 100}) as broker:
            for name, count in (("b", 2), ("a", 3), ("c", 1)):
                broker.create_topic(name, count)
            wire = Wire(broker.port)
            yield wire
            wire.close()

    def page(self, wire: Wire, *names: str, limit: int = 100, cursor: tuple[str, int] | None = None) -> Page:
        request = self.Request(
            topics=[self.Request.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else self.Request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        answer = wire.ask(request, m.DescribeTopicPartitionsResponse, 0)
        following = answer.next_cursor
        return (
            [(each.name, [p.partition_index for p in each.partitions]) for each in answer.topics],
            None if following is None else (following.topic_name, following.partition_index),
        )

    def test_topics_come_sorted_by_name(self, wire: Wire) -> None:
        assert self.page(wire) == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)
        assert self.page(wire, "c", "a", "a") == ([("a", [0, 1, 2]), ("c", [0])], None)

    def test_pages_of_so_many_partitions_follow_one_another(self, wire: Wire) -> None:
        pages = []
        cursor = None
        while True:
            topics, cursor = self.page(wire, limit=2, cursor=cursor)
            pages.append(topics)
            if cursor is None:
                break
        assert pages == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1]), ("c", [0])]]

    def test_a_topic_that_does_not_exist_has_its_error(self, wire: Wire) -> None:
        request = self.Request(topics=[self.Request.TopicRequest(name="nowhere")], response_partition_limit=10)
        (absent,) = wire.ask(request, m.DescribeTopicPartitionsResponse, 0).topics
        assert (absent.name, absent.error_code) == ("nowhere", UNKNOWN)

    @pytest.mark.parametrize("cursor", [("a", -1), ("b", 0)], ids=["negative", "of a topic that is not requested"])
    def test_a_wrong_cursor_is_an_invalid_request(self, wire: Wire, cursor: tuple[str, int]) -> None:
        request = self.Request(
            topics=[self.Request.TopicRequest(name="a")],
            response_partition_limit=10,
            cursor=self.Request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        (refused,) = wire.ask(request, m.DescribeTopicPartitionsResponse, 0).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST
