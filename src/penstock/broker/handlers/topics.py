"""CreateTopics, DeleteTopics, CreatePartitions: the admin's side of topics.

Every topic of a request succeeds or fails on its own, and a topic that is named twice fails with INVALID_REQUEST.
`validate_only` does everything but the change. The answer comes when this broker leads what it is to lead of the new
partitions, so that they can be used at once. A broker without others takes a replication factor of 1 (or -1, the
default) and replica assignments that name this broker; where leaders move, replicas are the brokers that would take
over, and there may be as many as there are brokers. Partitions that are created and deleted count against
the quota of controller mutations (KIP-599).

Creating needs CREATE, deleting DELETE, on the cluster or on each topic; more partitions need ALTER on the topic. What a
created topic is like is told to those who may describe its configs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.broker.config import ConfigError
from penstock.broker.handlers.table import ALTER_TOPIC, DESCRIBE_TOPIC_CONFIGS
from penstock.broker.new_partitions import NewPartitions
from penstock.broker.requests import AnyRequest, Pending, Request
from penstock.broker.topics import MAX_PARTITIONS, METADATA_TOPIC, Topic, check_name
from penstock.catalog.shared import Placement
from penstock.security.acls import CLUSTER_NAME
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import (
    ErrorCode,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import ZERO_UUID

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig, Configs
    from penstock.broker.gate import Gate
    from penstock.broker.quotas import Mutations, Quotas
    from penstock.broker.topic_manager import TopicManager
    from penstock.broker.world import World

_BY_ID = 6
_STRICT_CREATE, _STRICT_DELETE, _STRICT_GROW = 6, 5, 3
"""The versions that know THROTTLING_QUOTA_EXCEEDED."""
_BOTH = "You may not specify both topic name and topic id."
_NO_NAME = "This server does not host this topic-partition."
_NO_ID = "This server does not host this topic ID."
MAX_PARTITIONS_OF_REQUEST = 10_000
"""Kafka's own limit, which its controller's batches of records set."""
_TOO_LARGE = f"A request may create {MAX_PARTITIONS_OF_REQUEST} partitions in all."


class _Assignment(Protocol):
    broker_ids: list[int]


class TopicHandlers:
    def __init__(
        self,
        topics: TopicManager,
        cluster: ClusterView,
        config: BrokerConfig,
        configs: Configs,
        world: World,
        gate: Gate,
        quotas: Quotas,
    ) -> None:
        self._topics = topics
        self._cluster = cluster
        self._config = config
        self._configs = configs
        self._world = world
        self._gate = gate
        self._quotas = quotas
        self._new_partitions = NewPartitions(cluster, world)

    def create_topics(self, request: Request[m.CreateTopicsRequest]) -> m.CreateTopicsResponse | Pending:
        body = request.body
        response = m.CreateTopicsResponse()
        created: list[Topic] = []
        mutations = self._quotas.mutations(request, strict_since=_STRICT_CREATE)
        times = Counter(topic.name for topic in body.topics)
        valid = [topic for topic in body.topics if times[topic.name] == 1 and topic.name != METADATA_TOPIC]
        denied = {topic.name for topic in valid if not self._gate.allows_creating(request, topic.name)}
        valid = [topic for topic in valid if topic.name not in denied]
        if sum(self._requested_partitions(topic) for topic in valid) > MAX_PARTITIONS_OF_REQUEST:
            response.topics = [
                m.CreateTopicsResponse.CreatableTopicResult(
                    name=topic.name,
                    error_code=ErrorCode.POLICY_VIOLATION,
                    error_message=_TOO_LARGE,
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=[],
                )
                for topic in body.topics
            ]
            return response
        for name in times:
            requested = next(topic for topic in body.topics if topic.name == name)
            result = m.CreateTopicsResponse.CreatableTopicResult(
                name=name, num_partitions=-1, replication_factor=-1, configs=[]
            )
            response.topics.append(result)
            try:
                if times[name] > 1:
                    raise InvalidRequest("Duplicate topic name.")
                if name == METADATA_TOPIC:
                    raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
                if name in denied:
                    raise TopicAuthorizationFailed("Authorization failed.")
                created += self._create(requested, body.validate_only, result, mutations)
                if not self._gate.shows(request, *DESCRIBE_TOPIC_CONFIGS, name):
                    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    result.num_partitions = result.replication_factor = -1
                    result.configs = []
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.message
        mutations.finish(response)
        return self._new_partitions.when_led(request, response, created, body.timeout_ms)

    def _requested_partitions(self, requested: m.CreateTopicsRequest.CreatableTopic) -> int:
        if requested.assignments:
            return len(requested.assignments)
        return self._config.num_partitions if requested.num_partitions == -1 else max(0, requested.num_partitions)

    def _create(
        self,
        requested: m.CreateTopicsRequest.CreatableTopic,
        validate_only: bool,
        result: m.CreateTopicsResponse.CreatableTopicResult,
        mutations: Mutations,
    ) -> list[Topic]:
        """The topic, unless the request was only to be validated."""
        check_name(requested.name)
        if self._cluster.find_topic(requested.name) is not None:
            raise TopicAlreadyExists(f"Topic '{requested.name}' already exists.")
        collisions = self._cluster.colliding_topics(requested.name)
        if collisions:
            raise InvalidTopic(f"Topic '{requested.name}' collides with existing topic: {collisions[0]}")
        partitions = self._partition_count(requested)
        configs = self._checked_configs(requested)
        mutations.record(partitions)
        ordered = {each.partition_index: each for each in requested.assignments}
        placements = _placements([ordered[index] for index in sorted(ordered)])
        replication = len(placements[0].replicas) if placements else self._replication(requested.replication_factor)
        result.num_partitions = partitions
        result.replication_factor = replication
        created: list[Topic] = []
        if validate_only:
            result.topic_id = self._world.new_id()
        else:
            topic = self._topics.create(
                requested.name, partitions, configs, replication_factor=replication, placements=self._chosen(placements)
            )
            created = [topic]
            result.topic_id = topic.topic_id
        result.configs = [
            m.CreateTopicsResponse.CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in self._configs.topic_entries(configs)
        ]
        return created

    def _partition_count(self, requested: m.CreateTopicsRequest.CreatableTopic) -> int:
        if requested.assignments:
            if requested.num_partitions != -1:
                raise InvalidRequest(
                    "A manual partition assignment was specified, but numPartitions was not set to -1."
                )
            if requested.replication_factor != -1:
                raise InvalidRequest(
                    "A manual partition assignment was specified, but replication factor was not set to -1."
                )
            indexes = sorted(assignment.partition_index for assignment in requested.assignments)
            if len(set(indexes)) != len(indexes):
                raise InvalidReplicaAssignment("Found multiple manual partition assignments for the same partition.")
            if indexes != list(range(len(indexes))):
                raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
            self._check_assignments(requested.assignments)
            return len(indexes)
        if requested.replication_factor < -1 or requested.replication_factor == 0:
            raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
        if requested.num_partitions < -1 or requested.num_partitions == 0:
            raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
        if self._replication(requested.replication_factor) > len(self._cluster.replica_ids):
            raise InvalidReplicationFactor(
                f"Unable to replicate the partition {requested.replication_factor} time(s): "
                "The target replication factor of "
                f"{requested.replication_factor} cannot be reached because only {len(self._cluster.replica_ids)} "
                "broker(s) are registered."
            )
        return self._config.num_partitions if requested.num_partitions == -1 else requested.num_partitions

    def _replication(self, requested: int) -> int:
        """With -1 the default counts, as far as there are brokers."""
        if requested != -1:
            return requested
        return min(self._config.default_replication_factor, len(self._cluster.replica_ids))

    def _chosen(self, placements: list[Placement]) -> list[Placement]:
        """Where leaders do not move, there is nothing to choose."""
        return placements if self._cluster.leaders_move else []

    def _check_assignments(self, assignments: Sequence[_Assignment]) -> None:
        for assignment in assignments:
            if not assignment.broker_ids:
                raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
            if len(set(assignment.broker_ids)) != len(assignment.broker_ids):
                raise InvalidReplicaAssignment("The manual partition assignment includes a broker more than once.")
            for broker_id in assignment.broker_ids:
                if broker_id not in self._cluster.replica_ids:
                    raise InvalidReplicaAssignment(
                        f"The manual partition assignment includes broker {broker_id}, "
                        "but no such broker is registered."
                    )

    def _checked_configs(self, requested: m.CreateTopicsRequest.CreatableTopic) -> dict[str, str]:
        configs: dict[str, str] = {}
        for config in requested.configs:
            if config.value is None:
                raise InvalidConfig(f"Null value not supported for topic configs: {config.name}")
            configs[config.name] = config.value
        try:
            self._configs.check_topic(configs)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error
        return configs

    def delete_topics(self, request: Request[m.DeleteTopicsRequest]) -> m.DeleteTopicsResponse:
        body = request.body
        response = m.DeleteTopicsResponse()
        mutations = self._quotas.mutations(request, strict_since=_STRICT_DELETE)
        if request.api_version >= _BY_ID:
            requested = [(topic.name, topic.topic_id) for topic in body.topics]
        else:
            requested = [(name, ZERO_UUID) for name in body.topic_names]
        times: Counter[tuple[str | None, bytes]] = Counter()
        for name, topic_id in requested:
            if (name is None) != (topic_id == ZERO_UUID):
                times[name, topic_id] += 1
                continue
            wrong = "Neither topic name nor id were specified." if name is None else _BOTH
            response.responses.append(
                m.DeleteTopicsResponse.DeletableTopicResult(
                    name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=wrong
                )
            )
        for name, topic_id in times:
            topic = self._cluster.topic_by_id(topic_id) if name is None else self._cluster.find_topic(name)
            known_name = name if topic is None else topic.name
            is_shown = known_name is None or self._may(request, AclOperation.DESCRIBE, known_name)
            may_delete = known_name is None or (
                (is_shown or name is None) and self._may(request, AclOperation.DELETE, known_name)
            )
            is_named_too = (
                topic is not None and may_delete and times[topic.name, ZERO_UUID] and times[None, topic.topic_id]
            )
            if is_named_too and name is None:
                continue  # answered under its name
            result = m.DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id)
            response.responses.append(result)
            try:
                if times[name, topic_id] > 1 or is_named_too:
                    result.topic_id = topic.topic_id if topic is not None and is_named_too else topic_id
                    raise InvalidRequest("Duplicate topic.")
                if not may_delete and (topic is not None or not is_shown):
                    result.name = known_name if is_shown else name
                    raise TopicAuthorizationFailed()
                if topic is None:
                    raise UnknownTopicId(_NO_ID) if name is None else UnknownTopicOrPartition(_NO_NAME)
                if not self._config.delete_topic_enable:
                    raise TopicDeletionDisabled("Topic deletion is disabled.")
                result.name, result.topic_id = topic.name, topic.topic_id
                mutations.record(topic.partition_count)
                self._topics.delete(topic)
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.message
        mutations.finish(response)
        return response

    def _may(self, request: AnyRequest, operation: AclOperation, topic: str) -> bool:
        """Whether this may be done to a topic, or to all of the cluster, on the way to deleting it."""
        on_cluster = self._gate.shows(request, AclOperation.DELETE, AclResource.CLUSTER, CLUSTER_NAME)
        return on_cluster or self._gate.allows(request, operation, AclResource.TOPIC, topic)

    def create_partitions(self, request: Request[m.CreatePartitionsRequest]) -> m.CreatePartitionsResponse | Pending:
        body = request.body
        response = m.CreatePartitionsResponse()
        grown: list[Topic] = []
        mutations = self._quotas.mutations(request, strict_since=_STRICT_GROW)
        times = Counter(topic.name for topic in body.topics)
        for name in times:
            requested = next(topic for topic in body.topics if topic.name == name)
            result = m.CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
            response.results.append(result)
            try:
                if times[name] > 1:
                    raise InvalidRequest("Duplicate topic name.")
                if not self._gate.allows(request, *ALTER_TOPIC, name):
                    raise TopicAuthorizationFailed
                grown += self._grow(requested, body.validate_only, mutations)
            except (TopicAuthorizationFailed, UnknownTopicOrPartition) as error:
                result.error_code = error.code  # which says it all: Kafka adds no sentence either
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.message
        mutations.finish(response)
        return self._new_partitions.when_led(request, response, grown, body.timeout_ms)

    def _grow(
        self, requested: m.CreatePartitionsRequest.CreatePartitionsTopic, validate_only: bool, mutations: Mutations
    ) -> list[Topic]:
        """The topic, unless the request was only to be validated."""
        topic = self._cluster.find_topic(requested.name)
        if topic is None:
            raise UnknownTopicOrPartition
        have = topic.partition_count
        if requested.count == have:
            raise InvalidPartitions(f"Topic already has {have} partition(s).")
        if requested.count < have:
            raise InvalidPartitions(
                f"The topic {requested.name} currently has {have} partition(s); "
                f"{requested.count} would not be an increase."
            )
        if requested.count - have > MAX_PARTITIONS_OF_REQUEST:
            raise PolicyViolation(_TOO_LARGE)
        if requested.count > MAX_PARTITIONS:
            raise InvalidPartitions(f"Number of partitions must not be larger than {MAX_PARTITIONS}.")
        if requested.assignments is not None:
            added = requested.count - have
            if len(requested.assignments) != added:
                raise InvalidReplicaAssignment(
                    f"Attempted to add {added} additional partition(s), but only {len(requested.assignments)} "
                    "assignment(s) were specified."
                )
            self._check_assignments(requested.assignments)
        mutations.record(requested.count - have)
        if validate_only:
            return []
        self._topics.grow(topic, requested.count, self._chosen(_placements(requested.assignments or ())))
        return [topic]


def _placements(assignments: Sequence[_Assignment]) -> list[Placement]:
    """The first of the replicas leads."""
    return [Placement(each.broker_ids[0], tuple(each.broker_ids)) for each in assignments]
