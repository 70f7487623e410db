"""DescribeLogDirs: where the records are and how much room they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Request
from penstock.broker.topics import Topic
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.storage.contract import Storage


class LogDirHandlers:
    def __init__(self, cluster: ClusterView, storage: Storage, gate: Gate) -> None:
        self._cluster = cluster
        self._storage = storage
        self._gate = gate

    def describe_log_dirs(self, request: Request[m.DescribeLogDirsRequest]) -> m.DescribeLogDirsResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE):
            return m.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        requested: dict[str, set[int]] | None = None
        if body.topics is not None:
            requested = {}
            for named in body.topics:
                requested.setdefault(named.topic, set()).update(named.partitions)
        response = m.DescribeLogDirsResponse
        topics = []
        for topic in self._cluster.topics():
            if requested is not None and topic.name not in requested:
                continue
            partitions = _partitions(topic, requested[topic.name] if requested is not None else None)
            if partitions:
                topics.append(response.DescribeLogDirsTopic(name=topic.name, partitions=partitions))
        volume = self._storage.volume()
        return response(
            results=[
                response.DescribeLogDirsResult(
                    log_dir=volume.path,
                    topics=topics,
                    total_bytes=volume.total_bytes,
                    usable_bytes=volume.usable_bytes,
                )
            ]
        )


def _partitions(topic: Topic, requested: set[int] | None) -> list[m.DescribeLogDirsResponse.DescribeLogDirsPartition]:
    return [
        m.DescribeLogDirsResponse.DescribeLogDirsPartition(
            partition_index=partition.index, partition_size=partition.log.size
        )
        for partition in topic.hosted_partitions()
        if requested is None or partition.index in requested
    ]
