"""DescribeProducers: the idempotent and transactional producers that a partition remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handlers.table import READ_TOPIC
from penstock.broker.requests import Request
from penstock.broker.topics import check_name
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, TopicAuthorizationFailed

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate


class ProducerHandlers:
    def __init__(self, cluster: ClusterView, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate

    def describe_producers(self, request: Request[m.DescribeProducersRequest]) -> m.DescribeProducersResponse:
        body = request.body
        response = m.DescribeProducersResponse()
        for topic in body.topics:
            response.topics.append(
                m.DescribeProducersResponse.TopicResponse(
                    name=topic.name,
                    partitions=[self._describe(request, topic.name, index) for index in topic.partition_indexes],
                )
            )
        return response

    def _describe(
        self, request: Request[m.DescribeProducersRequest], topic: str, index: int
    ) -> m.DescribeProducersResponse.PartitionResponse:
        response = m.DescribeProducersResponse
        try:
            check_name(topic)
            if not self._gate.allows(request, *READ_TOPIC, topic):
                raise TopicAuthorizationFailed()
        except KafkaError as error:
            return response.PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
        try:
            partition = self._cluster.hosted(topic, index)
        except KafkaError as error:
            # Kafka explains a topic that is not there, and leaves a partition that is not there to its code.
            text = error.message if self._cluster.find_topic(topic) is None else None
            return response.PartitionResponse(partition_index=index, error_code=error.code, error_message=text)
        return response.PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.NONE,
            active_producers=[
                response.ProducerState(
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    last_sequence=state.last_sequence,
                    last_timestamp=state.last_timestamp,
                    coordinator_epoch=state.coordinator_epoch,
                    current_txn_start_offset=state.transaction_first_offset,
                )
                for state in partition.log.active_producers()
            ],
        )
