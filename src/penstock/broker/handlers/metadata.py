"""Metadata, DescribeCluster, DescribeTopicPartitions: which brokers and topics there are.

Metadata by name creates a missing topic when client and broker both allow it, and answers with the topic at once
(Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and has the client ask again). An invalid name is
INVALID_TOPIC_EXCEPTION, an unknown topic id is UNKNOWN_TOPIC_ID. DescribeTopicPartitions pages through topics sorted by
name.

Topics that somebody may not describe are left out where all were asked for, and refused where they were named, whether
they exist or not. Creating one needs CREATE on the cluster or on the topic. Who the brokers are is no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.gate import OPERATIONS_NOT_REQUESTED
from penstock.broker.handlers.table import DESCRIBE_TOPIC
from penstock.broker.requests import AnyRequest, Request
from penstock.broker.topics import INTERNAL_TOPICS, Topic
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode, KafkaError, ThrottlingQuotaExceeded, UnknownTopicOrPartition
from penstock.wire.messages import ZERO_UUID

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.gate import Gate
    from penstock.broker.quotas import Quotas
    from penstock.broker.topic_manager import TopicManager


_BY_ID_VERSION = 12
_BROKERS, _CONTROLLERS = 1, 2
_NO_LEADER = -1


class MetadataHandlers:
    def __init__(
        self, topics: TopicManager, cluster: ClusterView, config: BrokerConfig, gate: Gate, quotas: Quotas
    ) -> None:
        self._topics = topics
        self._cluster = cluster
        self._config = config
        self._gate = gate
        self._quotas = quotas

    def metadata(self, request: Request[m.MetadataRequest]) -> m.MetadataResponse:
        body = request.body
        response = m.MetadataResponse(
            brokers=[
                m.MetadataResponse.MetadataResponseBroker(
                    node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
                )
                for broker in self._cluster.brokers(request.connection.listener_name)
            ],
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
        )
        if 8 <= request.api_version <= 10:
            response.cluster_authorized_operations = self._cluster_operations(
                request, body.include_cluster_authorized_operations
            )
        if body.topics is None or (request.api_version == 0 and not body.topics):
            response.topics = [
                self._topic(request, topic)
                for topic in self._cluster.topics()
                if self._gate.shows(request, *DESCRIBE_TOPIC, topic.name)
            ]
            return response
        if request.api_version < _BY_ID_VERSION and any(
            requested.topic_id != ZERO_UUID or requested.name is None for requested in body.topics
        ):
            return m.MetadataResponse(
                topics=[
                    _topic_error(requested.name or "", requested.topic_id, ErrorCode.INVALID_REQUEST)
                    for requested in body.topics
                ],
                controller_id=-1,
            )
        denied: list[m.MetadataResponse.MetadataResponseTopic] = []
        for requested in self._without_repeats(_of_one_kind(body.topics)):
            answer = self._requested_topic(request, requested)
            is_denied = answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            (denied if is_denied else response.topics).append(answer)
        response.topics += denied
        return response

    def _cluster_operations(self, request: AnyRequest, is_requested: bool) -> int:
        if not is_requested:
            return OPERATIONS_NOT_REQUESTED
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE):
            return 0
        return self._gate.cluster_operations(request)

    def _without_repeats(
        self, requested: list[m.MetadataRequest.MetadataRequestTopic]
    ) -> list[m.MetadataRequest.MetadataRequestTopic]:
        """Each topic once, also when it is asked for by name and by id."""
        by_key: dict[str | bytes, m.MetadataRequest.MetadataRequestTopic] = {}
        for each in requested:
            topic = self._cluster.topic_by_id(each.topic_id) if each.name is None else None
            by_key.setdefault(each.name or (topic.name if topic is not None else each.topic_id), each)
        return list(by_key.values())

    def _requested_topic(
        self, request: Request[m.MetadataRequest], requested: m.MetadataRequest.MetadataRequestTopic
    ) -> m.MetadataResponse.MetadataResponseTopic:
        # Java's consumer sends an empty name beside the id when it asks for topics that a pattern brought.
        if requested.name is None or requested.topic_id != ZERO_UUID:
            topic = self._cluster.topic_by_id(requested.topic_id)
            if topic is None:
                return _topic_error(None, requested.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
            if not self._gate.allows(request, *DESCRIBE_TOPIC, topic.name):
                return _topic_error(None, requested.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return self._topic(request, topic)
        if not self._gate.allows(request, *DESCRIBE_TOPIC, requested.name):
            return _topic_error(requested.name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        may_create = request.body.allow_auto_topic_creation
        if may_create and self._is_creation_denied(request, requested.name):
            return _topic_error(
                requested.name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.name in INTERNAL_TOPICS
            )
        try:
            topic = self._get_or_create(request, requested.name) if may_create else self._cluster.topic(requested.name)
        except KafkaError as error:
            answer = _topic_error(requested.name, ZERO_UUID, error.code, requested.name in INTERNAL_TOPICS)
            answer.topic_authorized_operations = self._topic_operations(request, requested.name)
            return answer
        return self._topic(request, topic)

    def _get_or_create(self, request: Request[m.MetadataRequest], name: str) -> Topic:
        """A topic that nobody may create now is unknown: the client will ask again."""
        is_new = self._config.auto_create_topics_enable and self._cluster.find_topic(name) is None
        if is_new and self._quotas.limits_mutations:
            try:
                self._quotas.mutations(request).record(self._config.num_partitions)
            except ThrottlingQuotaExceeded as error:
                raise UnknownTopicOrPartition from error
        return self._topics.get_or_create(name)

    def _is_creation_denied(self, request: AnyRequest, name: str) -> bool:
        return (
            self._config.auto_create_topics_enable
            and self._cluster.find_topic(name) is None
            and not self._gate.allows_creating(request, name)
        )

    def _topic_operations(self, request: Request[m.MetadataRequest], name: str) -> int:
        if not request.body.include_topic_authorized_operations:
            return OPERATIONS_NOT_REQUESTED
        return self._gate.operations(request, AclResource.TOPIC, name)

    def _topic(self, request: Request[m.MetadataRequest], topic: Topic) -> m.MetadataResponse.MetadataResponseTopic:
        return m.MetadataResponse.MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[self._partition(topic, index) for index in range(topic.partition_count)],
            topic_authorized_operations=self._topic_operations(request, topic.name),
        )

    def _partition(self, topic: Topic, index: int) -> m.MetadataResponse.MetadataResponsePartition:
        leader = self._cluster.leader(topic, index)
        replicas = self._cluster.replicas(topic, index)
        return m.MetadataResponse.MetadataResponsePartition(
            error_code=ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=leader.node_id if leader is not None else _NO_LEADER,
            leader_epoch=leader.epoch if leader is not None else _NO_LEADER,
            replica_nodes=replicas,
            isr_nodes=self._cluster.in_sync_replicas(topic, index),
        )

    def describe_cluster(self, request: Request[m.DescribeClusterRequest]) -> m.DescribeClusterResponse:
        body = request.body
        if body.endpoint_type != _BROKERS:
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if body.endpoint_type == _CONTROLLERS else None
            return m.DescribeClusterResponse(
                error_code=error if error is not None else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of the wrong type."
                if error is not None
                else f"Unsupported endpoint type {body.endpoint_type}",
            )
        return m.DescribeClusterResponse(
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            brokers=[
                m.DescribeClusterResponse.DescribeClusterBroker(
                    broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
                )
                for broker in self._cluster.brokers(request.connection.listener_name)
            ],
            cluster_authorized_operations=self._cluster_operations(request, body.include_cluster_authorized_operations),
        )

    def describe_topic_partitions(
        self, request: Request[m.DescribeTopicPartitionsRequest]
    ) -> m.DescribeTopicPartitionsResponse:
        body = request.body
        response = m.DescribeTopicPartitionsResponse()
        cursor = body.cursor
        if cursor is not None and (
            cursor.partition_index < 0
            or (body.topics and cursor.topic_name not in {topic.name for topic in body.topics})
        ):
            response.topics = [
                m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=topic.name
                )
                for topic in body.topics
            ]
            return response
        names = sorted({topic.name for topic in body.topics}) or [topic.name for topic in self._cluster.topics()]
        if cursor is not None:
            names = [name for name in names if name >= cursor.topic_name]
        asks = self._gate.allows if body.topics else self._gate.shows
        allowed = {name for name in names if asks(request, *DESCRIBE_TOPIC, name)}
        denied = [name for name in names if name not in allowed] if body.topics else []
        names = [name for name in names if name in allowed]
        left = min(max(body.response_partition_limit, 1), self._config.max_request_partition_size_limit)
        for name in names:
            start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            if left <= 0:
                response.next_cursor = m.DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=start)
                break
            described, shown, total = self._describe_topic(name, start, left)
            described.topic_authorized_operations = self._gate.operations(request, AclResource.TOPIC, name)
            response.topics.append(described)
            left -= max(shown, 0)
            if start + shown < total:
                response.next_cursor = m.DescribeTopicPartitionsResponse.Cursor(
                    topic_name=name, partition_index=start + shown
                )
                break
        response.topics += [
            m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
            )
            for name in denied
        ]
        return response

    def _describe_topic(
        self, name: str, start: int, limit: int
    ) -> tuple[m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic, int, int]:
        """The description, how many partitions it shows, and how many the topic has."""
        response = m.DescribeTopicPartitionsResponse
        try:
            topic = self._cluster.topic(name)
        except KafkaError as error:
            return response.DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name), 0, 0
        partitions = [
            self._describe_partition(topic, index) for index in range(start, min(start + limit, topic.partition_count))
        ]
        described = response.DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
        )
        return described, len(partitions), topic.partition_count

    def _describe_partition(
        self, topic: Topic, index: int
    ) -> m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
        leader = self._cluster.leader(topic, index)
        replicas = self._cluster.replicas(topic, index)
        return m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=leader.node_id if leader is not None else _NO_LEADER,
            leader_epoch=leader.epoch if leader is not None else _NO_LEADER,
            replica_nodes=replicas,
            isr_nodes=self._cluster.in_sync_replicas(topic, index),
            eligible_leader_replicas=[],
            last_known_elr=[],
        )


def _of_one_kind(
    requested: list[m.MetadataRequest.MetadataRequestTopic],
) -> list[m.MetadataRequest.MetadataRequestTopic]:
    """A request that names one topic by its id is about ids: names alone say nothing in it."""
    by_id = [each for each in requested if each.topic_id != ZERO_UUID]
    return by_id or requested


def _topic_error(
    name: str | None, topic_id: bytes, code: int, is_internal: bool = False
) -> m.MetadataResponse.MetadataResponseTopic:
    return m.MetadataResponse.MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=is_internal
    )
