"""Topics, partitions, records, the cluster itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.admin.base import AdminPart, Outcome, raise_first
from penstock.client.errors import check, kafka_error
from penstock.client.metadata import TopicInfo
from penstock.client.offsets import list_offsets
from penstock.client.partitions import AnyPartition, P, keyed_by_partition, partitions_of
from penstock.client.types import IsolationLevel, Node, OffsetAndTimestamp, TopicPartition, by_topic
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, list[int]] = field(default_factory=dict)  # partition -> brokers, instead of counts


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller: int
    nodes: list[Node]
    fenced: set[int] = field(default_factory=set)
    operations: frozenset[AclOperation] | None = None
    """What this user may do to the cluster, where that was asked; none of it without DESCRIBE."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """One data folder of one broker, with the size in bytes of every partition in it."""

    broker: int
    path: str
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]


class Topics(AdminPart):
    async def describe_cluster(self, *, include_operations: bool = False) -> ClusterDescription:
        """The brokers, and on request what this user may do to the cluster."""
        connection = await self.cluster.any_connection()
        if not connection.offers(m.DescribeClusterResponse):
            await self.cluster.refresh()
            known = self.cluster.metadata
            return ClusterDescription(known.cluster_id, known.controller_id, sorted(known.nodes.values()))
        answer = await self.cluster.call(
            m.DescribeClusterRequest(include_cluster_authorized_operations=include_operations),
            m.DescribeClusterResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message),
        )
        return ClusterDescription(
            answer.cluster_id,
            answer.controller_id,
            sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers),
            {b.broker_id for b in answer.brokers if b.is_fenced},
            _operations(answer.cluster_authorized_operations) if include_operations else None,
        )

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """All topics, by name."""
        await self.cluster.retrying(self.cluster.refresh_all)
        topics = self.cluster.metadata.topics.values()
        return sorted((t for t in topics if include_internal or not t.is_internal), key=lambda t: t.name)

    async def describe_topic(self, name: str) -> TopicInfo:
        """Partitions, leaders and replicas of a topic. Raises UnknownTopicOrPartition if it does not exist."""
        names = m.MetadataRequest.MetadataRequestTopic

        def build(version: int) -> m.Message:
            return m.MetadataRequest(topics=[names(name=name)], allow_auto_topic_creation=version < 4)

        answer = await self.cluster.request(build, m.MetadataResponse, at_least=1)
        for topic in answer.topics:
            if topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                check(topic.error_code, about=f"topic {name!r}")
        self.cluster.metadata.merge(answer, everything=False)
        info = self.cluster.metadata.topics.get(name)
        if info is None:
            raise kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=f"topic {name!r}")
        return info

    async def create_topic(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic. Raises TopicAlreadyExists if it exists."""
        new = NewTopic(name, num_partitions, replication_factor, configs or {})
        raise_first(await self.create_topics([new], validate_only=validate_only))

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Outcome:
        """Create several topics; returns an error or None for each."""
        creatable = m.CreateTopicsRequest.CreatableTopic
        request = m.CreateTopicsRequest(
            topics=[
                creatable(
                    name=topic.name,
                    num_partitions=-1 if topic.assignments else topic.num_partitions,
                    replication_factor=-1 if topic.assignments else topic.replication_factor,
                    assignments=[
                        m.CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                        for index, brokers in topic.assignments.items()
                    ],
                    configs=[
                        m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=self.config.request_timeout_ms,
            validate_only=validate_only,
        )
        answer = await self.cluster.call_controller(
            request,
            m.CreateTopicsResponse,
            check_answer=lambda answer: _retry_if_not_controller(t.error_code for t in answer.topics),
            at_least=2,
        )
        return {t.name: _error(t.error_code, t.error_message, f"topic {t.name!r}") for t in answer.topics}

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        raise_first(await self.delete_topics([name]))

    async def delete_topics(self, names: Iterable[str]) -> Outcome:
        """Delete several topics; returns an error or None for each."""
        requested = list(names)

        def build(version: int) -> m.Message:
            if version >= 6:
                state = m.DeleteTopicsRequest.DeleteTopicState
                return m.DeleteTopicsRequest(
                    topics=[state(name=name) for name in requested], timeout_ms=self.config.request_timeout_ms
                )
            return m.DeleteTopicsRequest(topic_names=requested, timeout_ms=self.config.request_timeout_ms)

        answer = await self.cluster.call_controller(
            build,
            m.DeleteTopicsResponse,
            check_answer=lambda answer: _retry_if_not_controller(r.error_code for r in answer.responses),
        )
        for name in requested:
            self.cluster.metadata.drop(name)
        return {r.name or "": _error(r.error_code, r.error_message, f"topic {r.name!r}") for r in answer.responses}

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> Outcome:
        """Raise topics to this many partitions each."""
        topic = m.CreatePartitionsRequest.CreatePartitionsTopic
        request = m.CreatePartitionsRequest(
            topics=[topic(name=name, count=count, assignments=None) for name, count in counts.items()],
            timeout_ms=self.config.request_timeout_ms,
            validate_only=validate_only,
        )
        answer = await self.cluster.call_controller(
            request,
            m.CreatePartitionsResponse,
            check_answer=lambda answer: _retry_if_not_controller(r.error_code for r in answer.results),
        )
        return {r.name: _error(r.error_code, r.error_message, f"topic {r.name!r}") for r in answer.results}

    async def delete_records(self, before: Mapping[P, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: all); returns the new first offsets."""
        removed: dict[TopicPartition, int] = {}
        limits = keyed_by_partition(before)

        async def attempt() -> None:
            waiting = [tp for tp in limits if tp not in removed]
            groups = await self.cluster.by_leader(waiting)
            await asyncio.gather(*(send(node, tps) for node, tps in groups.items()))

        async def send(node: int, partitions: list[TopicPartition]) -> None:
            entry = m.DeleteRecordsRequest.DeleteRecordsPartition
            request = m.DeleteRecordsRequest(
                topics=[
                    m.DeleteRecordsRequest.DeleteRecordsTopic(
                        name=name,
                        partitions=[entry(partition_index=n, offset=limits[TopicPartition(name, n)]) for n in numbers],
                    )
                    for name, numbers in by_topic(partitions).items()
                ],
                timeout_ms=self.config.request_timeout_ms,
            )
            answer = await self.cluster.request(request, m.DeleteRecordsResponse, node=node)
            for topic in answer.topics:
                for p in topic.partitions:
                    check(p.error_code, about=f"{topic.name}-{p.partition_index}")
                    removed[TopicPartition(topic.name, p.partition_index)] = p.low_watermark

        await self.cluster.retrying(attempt)
        return removed

    async def list_offsets(
        self,
        timestamps: Mapping[P, int],
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by `OffsetSpec` (earliest, latest, …) or by timestamp; -1 if there is none."""
        requested = keyed_by_partition(timestamps)
        self.cluster.want(tp.topic for tp in requested)
        return await list_offsets(self.cluster, requested, isolation)

    async def describe_log_dirs(self) -> list[LogDir]:
        """The data folders of all brokers."""
        await self.cluster.refresh()
        found: list[LogDir] = []
        for node in sorted(self.cluster.metadata.nodes):
            answer = await self.cluster.call(
                m.DescribeLogDirsRequest(topics=None), m.DescribeLogDirsResponse, node=node
            )
            check(answer.error_code, about=f"log dirs of broker {node}")
            for result in answer.results:
                check(result.error_code, about=f"{result.log_dir} of broker {node}")
                sizes = {
                    TopicPartition(topic.name, p.partition_index): p.partition_size
                    for topic in result.topics
                    for p in topic.partitions
                }
                found.append(LogDir(node, result.log_dir, result.total_bytes, result.usable_bytes, sizes))
        return found

    async def elect_leaders(self, partitions: Iterable[AnyPartition], *, unclean: bool = False) -> None:
        """Make the preferred replicas leaders, or with `unclean` any replica that is left."""
        entry = m.ElectLeadersRequest.TopicPartitions
        request = m.ElectLeadersRequest(
            election_type=1 if unclean else 0,
            topic_partitions=[
                entry(topic=name, partitions=numbers) for name, numbers in by_topic(partitions_of(partitions)).items()
            ],
            timeout_ms=self.config.request_timeout_ms,
        )
        answer = await self.cluster.call_controller(
            request, m.ElectLeadersResponse, check_answer=lambda answer: check(answer.error_code), at_least=1
        )
        for topic in answer.replica_election_results:
            for p in topic.partition_result:
                if p.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    check(p.error_code, p.error_message, about=f"{topic.topic}-{p.partition_id}")


def _error(code: int, message: str | None, about: str) -> KafkaError | None:
    return kafka_error(code, message, about) if code else None


def _retry_if_not_controller(codes: Iterable[int]) -> None:
    if any(code == ErrorCode.NOT_CONTROLLER for code in codes):
        raise kafka_error(ErrorCode.NOT_CONTROLLER)


def _operations(bits: int) -> frozenset[AclOperation]:
    """The operations that a response's bits stand for (KIP-430)."""
    return frozenset(each for each in AclOperation if bits >> int(each) & 1)
