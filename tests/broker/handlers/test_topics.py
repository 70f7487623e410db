"""CreateTopics, DeleteTopics and CreatePartitions over the wire."""

from __future__ import annotations

import pytest

from penstock.broker.handlers.topics import MAX_PARTITIONS_OF_REQUEST
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import ZERO_UUID
from tests.broker.handlers.records import batch, produce, topic_id
from tests.transactions.wire_client import Wire

NONE, INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
NODE = 1
Wanted = m.CreateTopicsRequest.CreatableTopic
Assignment = m.CreateTopicsRequest.CreatableReplicaAssignment


def wanted(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> Wanted:
    topic = Wanted(name=name, num_partitions=partitions, replication_factor=replicas)
    topic.configs = [
        m.CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    return topic


def assigned(name: str, *replicas: list[int], first: int = 0) -> Wanted:
    topic = wanted(name, -1, -1)
    topic.assignments = [
        Assignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas, first)
    ]
    return topic


def create(
    wire: Wire, *topics: Wanted, validate_only: bool = False
) -> list[m.CreateTopicsResponse.CreatableTopicResult]:
    request = m.CreateTopicsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only)
    return wire.ask(request, m.CreateTopicsResponse, 7).topics


def code(wire: Wire, topic: Wanted) -> int:
    (result,) = create(wire, topic)
    assert bool(result.error_message) == bool(result.error_code)
    return result.error_code


def partitions_of(wire: Wire, name: str) -> int:
    requested = m.MetadataRequest.MetadataRequestTopic(name=name)
    request = m.MetadataRequest(topics=[requested], allow_auto_topic_creation=False)
    return len(wire.ask(request, m.MetadataResponse, 12).topics[0].partitions)


class TestCreating:
    def test_the_answer_describes_the_new_topic(self, wire: Wire, name: str) -> None:
        (made,) = create(wire, wanted(name, 3, retention_ms="1000"))
        assert (made.error_code, made.num_partitions, made.replication_factor) == (NONE, 3, 1)
        assert made.topic_id == topic_id(wire, name) != ZERO_UUID
        assert {each.name: each.value for each in made.configs or []}["retention.ms"] == "1000"
        assert partitions_of(wire, name) == 3

    def test_the_brokers_own_number_of_partitions_is_the_default(self) -> None:
        with Broker({"num.partitions": 5}) as broker:
            wire = Wire(broker.port)
            assert create(wire, wanted("t", -1, -1))[0].num_partitions == 5
            wire.close()

    def test_validating_creates_nothing_and_finds_the_same_errors(self, wire: Wire, name: str, topic: str) -> None:
        fine, known = create(wire, wanted(name, 3), wanted(topic), validate_only=True)
        assert (fine.error_code, fine.num_partitions) == (NONE, 3)
        assert known.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert partitions_of(wire, name) == 0

    def test_every_topic_succeeds_or_fails_on_its_own(self, wire: Wire, name: str, topic: str) -> None:
        results = create(wire, wanted(topic), wanted(name), wanted("no/topic"))
        codes = {each.name: each.error_code for each in results}
        assert codes == {
            topic: ErrorCode.TOPIC_ALREADY_EXISTS,
            name: NONE,
            "no/topic": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }

    def test_a_topic_that_is_named_twice_is_refused_once_and_not_made(self, wire: Wire, name: str) -> None:
        (result,) = create(wire, wanted(name, 1), wanted(name, 2))
        assert (result.name, result.error_code) == (name, INVALID_REQUEST)
        assert partitions_of(wire, name) == 0

    def test_names_that_metrics_could_not_tell_apart_collide(self, wire: Wire, name: str) -> None:
        assert code(wire, wanted(f"{name}.x_y")) == NONE
        assert code(wire, wanted(f"{name}_x.y")) == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_the_metadata_topic_of_kafka_is_prohibited(self, wire: Wire) -> None:
        assert code(wire, wanted("__cluster_metadata")) == INVALID_REQUEST

    @pytest.mark.parametrize(
        ("partitions", "replicas", "error"),
        [
            (0, 1, ErrorCode.INVALID_PARTITIONS),
            (-2, 1, ErrorCode.INVALID_PARTITIONS),
            (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
            (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
            (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
            (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        ],
    )
    def test_numbers_that_cannot_be_had(
        self, wire: Wire, name: str, partitions: int, replicas: int, error: ErrorCode
    ) -> None:
        assert code(wire, wanted(name, partitions, replicas)) == error

    def test_a_request_may_not_ask_for_too_many_partitions_in_all(self, wire: Wire, name: str) -> None:
        half = MAX_PARTITIONS_OF_REQUEST // 2
        results = create(wire, wanted(name, half), wanted(f"{name}b", half + 1))
        assert [each.error_code for each in results] == [ErrorCode.POLICY_VIOLATION] * 2
        assert partitions_of(wire, name) == 0

    @pytest.mark.parametrize("value", ["soon", None])
    def test_a_wrong_config_is_refused_and_nothing_is_made(self, wire: Wire, name: str, value: str | None) -> None:
        assert code(wire, wanted(name, retention_ms=value)) == ErrorCode.INVALID_CONFIG
        assert partitions_of(wire, name) == 0


class TestAssignments:
    def test_partitions_may_be_assigned_to_this_broker(self, wire: Wire, name: str) -> None:
        (made,) = create(wire, assigned(name, [NODE], [NODE]))
        assert (made.error_code, made.num_partitions) == (NONE, 2)

    def test_then_the_numbers_are_left_to_the_assignment(self, wire: Wire, name: str) -> None:
        for field in ("num_partitions", "replication_factor"):
            both = assigned(name, [NODE])
            setattr(both, field, 1)
            assert code(wire, both) == INVALID_REQUEST

    @pytest.mark.parametrize("replicas", [[99], [], [NODE, NODE]], ids=["another broker", "none", "one twice"])
    def test_an_assignment_names_this_broker_and_once(self, wire: Wire, name: str, replicas: list[int]) -> None:
        assert code(wire, assigned(name, replicas)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_partitions_count_up_from_zero(self, wire: Wire, name: str) -> None:
        assert code(wire, assigned(name, [NODE], first=1)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


class TestDeleting:
    State = m.DeleteTopicsRequest.DeleteTopicState

    def delete(self, wire: Wire, *topics: tuple[str | None, bytes]) -> list[tuple[str | None, int]]:
        request = m.DeleteTopicsRequest(topics=[self.State(name=name, topic_id=id_) for name, id_ in topics])
        answer = wire.ask(request, m.DeleteTopicsResponse, 6)
        return [(each.name, each.error_code) for each in answer.responses]

    def test_by_name_and_by_id(self, wire: Wire, topic: str, name: str) -> None:
        wire.create_topic(name)
        assert self.delete(wire, (topic, ZERO_UUID), (None, topic_id(wire, name))) == [(topic, NONE), (name, NONE)]
        assert partitions_of(wire, topic) == partitions_of(wire, name) == 0

    def test_a_topic_that_is_made_anew_has_nothing_of_the_old_one(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"old"))
        before = topic_id(wire, topic)
        self.delete(wire, (topic, ZERO_UUID))
        wire.create_topic(topic)
        assert topic_id(wire, topic) != before
        assert wire.fetch(topic) == []

    def test_by_neither_or_by_both_is_refused(self, wire: Wire, topic: str) -> None:
        both = (topic, topic_id(wire, topic))
        assert self.delete(wire, both, (None, ZERO_UUID)) == [(topic, INVALID_REQUEST), (None, INVALID_REQUEST)]
        assert partitions_of(wire, topic) == 2

    def test_what_does_not_exist(self, wire: Wire) -> None:
        assert self.delete(wire, ("nowhere", ZERO_UUID), (None, bytes(range(16)))) == [
            ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    def test_a_topic_that_is_named_twice_stays(self, wire: Wire, topic: str) -> None:
        by_name, by_id = (topic, ZERO_UUID), (None, topic_id(wire, topic))
        for requested in ((by_name, by_name), (by_name, by_id)):
            assert self.delete(wire, *requested) == [(topic, INVALID_REQUEST)]
        assert partitions_of(wire, topic) == 2

    def test_older_versions_know_names_only(self, wire: Wire, topic: str) -> None:
        request = m.DeleteTopicsRequest(topic_names=[topic, "nowhere"])
        answer = wire.ask(request, m.DeleteTopicsResponse, 5)
        codes = {each.name: each.error_code for each in answer.responses}
        assert codes == {topic: NONE, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_deleting_can_be_switched_off(self) -> None:
        with Broker({"delete.topic.enable": "false"}) as broker:
            broker.create_topic("kept")
            wire = Wire(broker.port)
            assert self.delete(wire, ("kept", ZERO_UUID)) == [("kept", ErrorCode.TOPIC_DELETION_DISABLED)]
            assert partitions_of(wire, "kept") == 1
            wire.close()


class TestGrowing:
    Topic = m.CreatePartitionsRequest.CreatePartitionsTopic
    Assignment = m.CreatePartitionsRequest.CreatePartitionsAssignment

    def grow(
        self, wire: Wire, *topics: m.CreatePartitionsRequest.CreatePartitionsTopic, validate_only: bool = False
    ) -> list[int]:
        request = m.CreatePartitionsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only)
        return [each.error_code for each in wire.ask(request, m.CreatePartitionsResponse, 3).results]

    def to(
        self, name: str, count: int, assignments: list[list[int]] | None = None
    ) -> m.CreatePartitionsRequest.CreatePartitionsTopic:
        given = None if assignments is None else [self.Assignment(broker_ids=each) for each in assignments]
        return self.Topic(name=name, count=count, assignments=given)

    def test_new_partitions_are_there_at_once_and_old_records_stay(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"old"))
        assert self.grow(wire, self.to(topic, 4)) == [NONE]
        assert produce(wire, topic, batch(b"new"), partition=3).error_code == NONE
        assert wire.fetch(topic) == [b"old"]

    def test_validating_adds_none(self, wire: Wire, topic: str) -> None:
        assert self.grow(wire, self.to(topic, 4), validate_only=True) == [NONE]
        assert partitions_of(wire, topic) == 2

    @pytest.mark.parametrize("count", [2, 1, 0, -1])
    def test_a_topic_only_grows(self, wire: Wire, topic: str, count: int) -> None:
        assert self.grow(wire, self.to(topic, count)) == [ErrorCode.INVALID_PARTITIONS]

    def test_so_many_at_once_are_against_the_policy(self, wire: Wire, topic: str) -> None:
        assert self.grow(wire, self.to(topic, MAX_PARTITIONS_OF_REQUEST + 3)) == [ErrorCode.POLICY_VIOLATION]

    def test_assignments_are_for_each_new_partition_and_this_broker(self, wire: Wire, topic: str) -> None:
        wrong = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert self.grow(wire, self.to(topic, 4, [[NODE]])) == [wrong]
        assert self.grow(wire, self.to(topic, 4, [[NODE], [99]])) == [wrong]
        assert self.grow(wire, self.to(topic, 4, [[NODE], [NODE]])) == [NONE]

    def test_unknown_topics_and_those_named_twice(self, wire: Wire, topic: str) -> None:
        requested = [self.to("nowhere", 2), self.to(topic, 3), self.to(topic, 4)]
        assert self.grow(wire, *requested) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST]
        assert partitions_of(wire, topic) == 2
