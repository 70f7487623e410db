"""Who comes to the wrong broker is told who leads, and where."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.current_leaders import CurrentLeaders
from penstock.broker.listeners import Address
from penstock.broker.topics import Topic
from penstock.catalog.shared import BrokerRow, HostAndPort, PartitionRow
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

ID = bytes(range(16))
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def leaders() -> CurrentLeaders:
    view = ClusterView("c", 1, None)
    view.advertise("PLAINTEXT", Address("PLAINTEXT", "one", 9092))
    view.set_brokers([BrokerRow(2, 1, "b", "rack", {"PLAINTEXT": HostAndPort("two", 9093)}, is_live=True)])
    topic = Topic("orders", ID, {}, 2)
    view.add_topic(topic)
    view.set_rows(topic, [PartitionRow(ID, 0, 2, 7, (2,)), PartitionRow(ID, 1, 3, 1, (3,))])
    return CurrentLeaders(view)


def request(version: int, body: object = None) -> object:
    return SimpleNamespace(api_version=version, connection=SimpleNamespace(listener_name="PLAINTEXT"), body=body)


def test_a_producer_is_told_by_name_and_by_id(leaders: CurrentLeaders) -> None:
    partition = m.ProduceResponse.PartitionProduceResponse
    for version, name, topic_id in ((10, "orders", bytes(16)), (13, "", ID)):
        answers = [partition(0, NOT_LEADER), partition(1, NOT_LEADER), partition(2, 0)]
        response = m.ProduceResponse(responses=[m.ProduceResponse.TopicProduceResponse(name, topic_id, answers)])
        leaders.fill(request(version), response)  # type: ignore[arg-type]
        assert (answers[0].current_leader.leader_id, answers[0].current_leader.leader_epoch) == (2, 7)
        assert answers[1].current_leader.leader_id == -1, "nobody is known to lead it"
        (node,) = response.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (2, "two", 9093, "rack")


def test_an_older_producer_is_not(leaders: CurrentLeaders) -> None:
    answers = [m.ProduceResponse.PartitionProduceResponse(0, NOT_LEADER)]
    response = m.ProduceResponse(responses=[m.ProduceResponse.TopicProduceResponse("orders", ID, answers)])
    leaders.fill(request(9), response)  # type: ignore[arg-type]
    assert response.node_endpoints == []


def test_consumers_are_told_too(leaders: CurrentLeaders) -> None:
    fetched = m.FetchResponse.PartitionData(0, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    fetch = m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic_id=ID, partitions=[fetched])])
    leaders.fill(request(16), fetch)  # type: ignore[arg-type]
    shared = m.ShareFetchResponse.PartitionData(partition_index=0, error_code=NOT_LEADER)
    share = m.ShareFetchResponse(
        responses=[m.ShareFetchResponse.ShareFetchableTopicResponse(topic_id=ID, partitions=[shared])]
    )
    leaders.fill(request(1), share)  # type: ignore[arg-type]
    for partition, response in ((fetched, fetch), (shared, share)):
        assert partition.current_leader.leader_id == 2
        assert [node.host for node in response.node_endpoints] == ["two"]


def test_a_replica_is_told_who_leads_and_not_where_as_in_kafka(leaders: CurrentLeaders) -> None:
    fetched = m.FetchResponse.PartitionData(0, error_code=NOT_LEADER)
    fetch = m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic_id=ID, partitions=[fetched])])
    replica = m.FetchRequest(replica_state=m.FetchRequest.ReplicaState(replica_id=3))
    leaders.fill(request(16, replica), fetch)  # type: ignore[arg-type]
    assert fetched.current_leader.leader_id == 2
    assert fetch.node_endpoints == []
