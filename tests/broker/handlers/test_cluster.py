"""Administration of a cluster of one broker: elections, replicas, voters, the quorum, features."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.features import UPGRADE
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import ZERO_UUID
from tests.broker.handlers.feature_levels import finalized, lower, update
from tests.transactions.wire_client import Wire

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NODE = 1
PREFERRED = 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        yield it


def test_a_lowered_level_is_finalized_and_can_be_raised_again(broker: Broker) -> None:
    before, epoch = finalized(broker)
    lower(broker, "transaction.version", 1)
    assert finalized(broker) == ({**before, "transaction.version": 1}, epoch + 1)
    assert update(broker, "transaction.version", 2, UPGRADE).error_code == 0
    assert finalized(broker) == (before, epoch + 2)


def test_a_refused_update_says_what_is_wrong(broker: Broker) -> None:
    refused = update(broker, "share.version", 0, UPGRADE)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "without setting the upgrade type" in (refused.error_message or "")
    done = update(broker, "share.version", 1, UPGRADE, version=1)
    assert [(each.feature, each.error_message) for each in done.results] == [("share.version", "NONE")]


class TestElections:
    Election = m.ElectLeadersRequest

    def elect(self, wire: Wire, kind: int, *topics: tuple[str, list[int]]) -> tuple[int, dict[str, list[int]]]:
        requested = [self.Election.TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in topics]
        request = self.Election(election_type=kind, topic_partitions=requested or None, timeout_ms=1000)
        answer = wire.ask(request, m.ElectLeadersResponse, 2)
        results = answer.replica_election_results
        return answer.error_code, {each.topic: [p.error_code for p in each.partition_result] for each in results}

    def test_none_is_needed(self, wire: Wire, topic: str) -> None:
        code, codes = self.elect(wire, PREFERRED, (topic, [0, 9]), ("nowhere", [0]))
        assert (code, codes) == (NONE, {topic: [ErrorCode.ELECTION_NOT_NEEDED, UNKNOWN], "nowhere": [UNKNOWN]})

    def test_of_all_partitions_only_those_are_spoken_of_that_need_one(self, wire: Wire, topic: str) -> None:
        code, codes = self.elect(wire, PREFERRED)
        assert (code, codes[topic]) == (NONE, [])

    def test_a_kind_of_election_that_does_not_exist(self, wire: Wire, topic: str) -> None:
        assert self.elect(wire, 7, (topic, [0])) == (ErrorCode.INVALID_REQUEST, {topic: [ErrorCode.INVALID_REQUEST]})


class TestReplicas:
    Reassign = m.AlterPartitionReassignmentsRequest

    def reassign(self, wire: Wire, topic: str, replicas: list[int] | None, index: int = 0) -> int:
        partition = self.Reassign.ReassignablePartition(partition_index=index, replicas=replicas)
        requested = self.Reassign.ReassignableTopic(name=topic, partitions=[partition])
        answer = wire.ask(self.Reassign(topics=[requested], timeout_ms=1000), m.AlterPartitionReassignmentsResponse, 1)
        return answer.responses[0].partitions[0].error_code

    def test_a_partition_stays_where_it_is(self, wire: Wire, topic: str) -> None:
        assert self.reassign(wire, topic, [NODE]) == NONE
        for replicas in ([2], [NODE, 2], [NODE, NODE], []):
            assert self.reassign(wire, topic, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert self.reassign(wire, topic, [NODE], 9) == self.reassign(wire, "nowhere", [NODE]) == UNKNOWN

    def test_nothing_is_on_its_way(self, wire: Wire, topic: str) -> None:
        assert self.reassign(wire, topic, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        listed = wire.ask(m.ListPartitionReassignmentsRequest(), m.ListPartitionReassignmentsResponse, 0)
        assert (listed.error_code, listed.topics) == (NONE, [])

    def test_there_is_one_log_folder(self, wire: Wire, topic: str) -> None:
        request = m.AlterReplicaLogDirsRequest
        here = wire.ask(m.DescribeLogDirsRequest(topics=None), m.DescribeLogDirsResponse, 4).results[0].log_dir

        def move(path: str, index: int) -> int:
            requested = request.AlterReplicaLogDirTopic(name=topic, partitions=[index])
            body = request(dirs=[request.AlterReplicaLogDir(path=path, topics=[requested])])
            return wire.ask(body, m.AlterReplicaLogDirsResponse, 2).results[0].partitions[0].error_code

        assert [move(here, 0), move("/elsewhere", 0)] == [NONE, ErrorCode.LOG_DIR_NOT_FOUND]
        assert move(here, 9) == ErrorCode.REPLICA_NOT_AVAILABLE


class TestQuorum:
    Describe = m.DescribeQuorumRequest

    def describe(self, wire: Wire, topic: str, index: int) -> m.DescribeQuorumResponse:
        partition = self.Describe.PartitionData(partition_index=index)
        requested = self.Describe.TopicData(topic_name=topic, partitions=[partition])
        return wire.ask(self.Describe(topics=[requested]), m.DescribeQuorumResponse, 2)

    def test_this_broker_is_its_leader_and_only_voter(self, wire: Wire, port: int) -> None:
        answer = self.describe(wire, "__cluster_metadata", 0)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (NONE, NODE)
        assert [voter.replica_id for voter in partition.current_voters] == [NODE]
        assert [listener.port for node in answer.nodes for listener in node.listeners] == [port]

    def test_it_keeps_nothing_else(self, wire: Wire, topic: str) -> None:
        for name, index in ((topic, 0), ("__cluster_metadata", 1)):
            assert self.describe(wire, name, index).topics[0].partitions[0].error_code == UNKNOWN

    def test_voters_are_neither_added_nor_removed(self, wire: Wire) -> None:
        def add(voter: int, cluster: str | None = None) -> int:
            request = m.AddRaftVoterRequest(cluster_id=cluster, voter_id=voter, voter_directory_id=b"x" * 16)
            return wire.ask(request, m.AddRaftVoterResponse, 1).error_code

        def remove(voter: int, directory: bytes, cluster: str | None = None) -> int:
            request = m.RemoveRaftVoterRequest(cluster_id=cluster, voter_id=voter, voter_directory_id=directory)
            return wire.ask(request, m.RemoveRaftVoterResponse, 0).error_code

        assert [add(NODE), add(9)] == [ErrorCode.DUPLICATE_VOTER, ErrorCode.INVALID_REQUEST]
        assert remove(9, b"x" * 16) == ErrorCode.VOTER_NOT_FOUND
        assert remove(9, ZERO_UUID) == ErrorCode.INVALID_REQUEST
        assert {add(9, "another"), remove(9, b"x" * 16, "another")} == {ErrorCode.INCONSISTENT_CLUSTER_ID}


def test_the_only_broker_cannot_be_unregistered(wire: Wire) -> None:
    codes = [
        wire.ask(m.UnregisterBrokerRequest(broker_id=node), m.UnregisterBrokerResponse, 0).error_code
        for node in (NODE, NODE + 1)
    ]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.BROKER_ID_NOT_REGISTERED]


def test_streams_groups_are_unsupported(wire: Wire) -> None:
    heartbeat = wire.ask(m.StreamsGroupHeartbeatRequest(group_id="g"), m.StreamsGroupHeartbeatResponse, 0)
    described = wire.ask(m.StreamsGroupDescribeRequest(group_ids=["a", "b"]), m.StreamsGroupDescribeResponse, 0)
    assert heartbeat.error_code == ErrorCode.UNSUPPORTED_VERSION
    codes = {each.group_id: each.error_code for each in described.groups}
    assert codes == dict.fromkeys(("a", "b"), ErrorCode.UNSUPPORTED_VERSION)
