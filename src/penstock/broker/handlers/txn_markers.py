"""WriteTxnMarkers: the outcome of transactions, for partitions that this broker leads.

Coordinators on other brokers send it (`broker.marker_requests`), and administrators who end a transaction that hangs
(`Admin.abortTransaction`). It needs ALTER on the cluster, or CLUSTER_ACTION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Answer, Request
from penstock.broker.storage_errors import error_for_clients
from penstock.security.acls import CLUSTER_NAME
from penstock.storage.contract import StorageError
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import WriteMarkers
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.durability import Durability
    from penstock.broker.gate import Gate
    from penstock.broker.transaction_markers import TransactionMarkers
    from penstock.storage.contract import Log

Codes = dict[TopicPartition, ErrorCode]
_Append = tuple[tuple["Log", int], Codes, TopicPartition]
"""Up to where a log has to become durable, and the result that waits for it."""


class TxnMarkerHandlers:
    def __init__(self, cluster: ClusterView, markers: TransactionMarkers, durability: Durability, gate: Gate) -> None:
        self._cluster = cluster
        self._markers = markers
        self._durability = durability
        self._gate = gate

    def write_txn_markers(self, request: Request[m.WriteTxnMarkersRequest]) -> Answer:
        body = request.body
        may_alter = self._gate.shows(request, AclOperation.ALTER, AclResource.CLUSTER, CLUSTER_NAME)
        if not may_alter and not self._gate.allows_on_cluster(request, AclOperation.CLUSTER_ACTION):
            return _markers_response(
                {
                    marker.producer_id: {
                        (topic.name, index): ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                        for topic in marker.topics
                        for index in topic.partition_indexes
                    }
                    for marker in body.markers
                }
            )
        results: dict[int, Codes] = {}
        appends: list[_Append] = []
        for marker in body.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    codes = results.setdefault(marker.producer_id, {})
                    tp = (topic.name, index)
                    codes[tp] = self._write_marker(marker, tp, codes, appends)
        pending = request.defer()

        def settled(failures: list[StorageError | None]) -> None:
            for (_, codes, tp), failure in zip(appends, failures, strict=True):
                if failure is not None:
                    codes[tp] = error_for_clients(failure).code
            pending.complete(_markers_response(results))

        self._durability.when_each_is_settled([append for append, _, _ in appends], settled)
        return pending

    def _write_marker(
        self,
        marker: m.WriteTxnMarkersRequest.WritableTxnMarker,
        tp: TopicPartition,
        codes: Codes,
        appends: list[_Append],
    ) -> ErrorCode:
        name, index = tp
        topic = self._cluster.find_topic(name)
        if topic is None or not topic.has_partition(index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if min(marker.producer_id, marker.producer_epoch, marker.transaction_version) < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which fails while it builds the marker
        markers = WriteMarkers(
            transactional_id="",
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=TransactionVersion.TV_2 if marker.transaction_version >= 2 else TransactionVersion.TV_0,
            partitions=(tp,),
        )
        try:
            partition = topic.hosted(index)
            appended = self._markers.append(partition, markers)
        except StorageError as error:
            return error_for_clients(error).code
        except KafkaError as error:
            # A coordinator that sent this does not know the group coordinator's errors.
            return (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
            )
        appends.append(((partition.log, appended.position), codes, tp))
        return ErrorCode.NONE


def _markers_response(results: dict[int, Codes]) -> m.WriteTxnMarkersResponse:
    shapes = m.WriteTxnMarkersResponse
    response = shapes()
    for producer_id, codes in results.items():
        topics: dict[str, m.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
        for (name, index), code in codes.items():
            topic = topics.setdefault(name, shapes.WritableTxnMarkerTopicResult(name=name))
            topic.partitions.append(shapes.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        response.markers.append(shapes.WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values())))
    return response
