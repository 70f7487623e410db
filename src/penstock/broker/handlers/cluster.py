"""Leaders, replicas, the quorum and features: administration of a cluster.

Where leaders move, elections and reassignments move them (`broker.leader_moves`). A broker without others, or with
fixed owners, has nothing to elect or to move, and that is what the answers say, with the codes that Kafka has for it.
The metadata lives in the catalog; DescribeQuorum shows it as a quorum of this one broker, so that tools can tell that
the cluster is healthy. Streams groups (KIP-1071) are not served: the feature `streams.version` is not finalized, and
their requests get what a Kafka without that feature answers.

Looking needs DESCRIBE on the cluster, changing ALTER.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.features import Update
from penstock.broker.requests import Request
from penstock.broker.topics import METADATA_TOPIC
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import ClusterAuthorizationFailed, ErrorCode, KafkaError
from penstock.wire.messages import ZERO_UUID

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.features import Features
    from penstock.broker.gate import Gate
    from penstock.broker.leader_moves import LeaderMoves
    from penstock.broker.topics import Topic
    from penstock.broker.world import World
    from penstock.catalog.shared import Direction
    from penstock.storage.contract import Storage

    _Election = tuple[Direction, m.ElectLeadersResponse.PartitionResult]

_ELECTION_TYPES = (0, 1)
_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_DONE = "NONE"
"""What Kafka writes where there is no error to speak of."""
_NO_STREAMS = "The cluster does not support the STREAMS group protocol: streams.version is not finalized."


class ClusterHandlers:
    def __init__(
        self,
        cluster: ClusterView,
        features: Features,
        storage: Storage,
        world: World,
        gate: Gate,
        moves: LeaderMoves | None = None,
    ) -> None:
        """`moves` moves leaders, where they can be moved."""
        self._cluster = cluster
        self._features = features
        self._storage = storage
        self._world = world
        self._gate = gate
        self._moves = moves

    async def elect_leaders(self, request: Request[m.ElectLeadersRequest]) -> m.ElectLeadersResponse:
        """Answered when the leaders that were elected lead, or the time is up."""
        body = request.body
        response = m.ElectLeadersResponse()
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            response.error_code = _DENIED
            response.replica_election_results = [
                _denied_election(requested) for requested in body.topic_partitions or []
            ]
            return response
        is_known = body.election_type in _ELECTION_TYPES
        if not is_known and body.topic_partitions:
            response.error_code = ErrorCode.INVALID_REQUEST
        if body.topic_partitions is None and self._moves is not None and is_known:
            return await self._elect_all(self._moves, body)
        if body.topic_partitions is None:  # all of them; only elections that are needed are spoken of, and none is
            response.replica_election_results = [
                m.ElectLeadersResponse.ReplicaElectionResult(topic=topic.name) for topic in self._cluster.topics()
            ]
        elections: list[_Election] = []
        for requested in body.topic_partitions or []:
            topic = self._cluster.find_topic(requested.topic)
            result = m.ElectLeadersResponse.ReplicaElectionResult(topic=requested.topic)
            response.replica_election_results.append(result)
            for index in requested.partitions:
                partition = m.ElectLeadersResponse.PartitionResult(partition_id=index)
                result.partition_result.append(partition)
                if not is_known:
                    partition.error_code = ErrorCode.INVALID_REQUEST
                    partition.error_message = f"There is no election type {body.election_type}."
                elif topic is None or not topic.has_partition(index):
                    partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    partition.error_message = (
                        f"No such topic as {requested.topic}" if topic is None else "No such partition"
                    )
                elif self._moves is not None:
                    verdict = self._moves.elect(topic, index, body.election_type)
                    partition.error_code, partition.error_message = verdict.code, verdict.message
                    elections += [(verdict.direction, partition)] if verdict.direction is not None else []
                else:
                    partition.error_code = ErrorCode.ELECTION_NOT_NEEDED
                    partition.error_message = "Leader election not needed for topic partition."
        if self._moves is not None:
            await self._hold(self._moves, elections, body.timeout_ms, response)
        return response

    async def _elect_all(self, leaders: LeaderMoves, body: m.ElectLeadersRequest) -> m.ElectLeadersResponse:
        """Only elections that are needed are spoken of."""
        response = m.ElectLeadersResponse()
        elections: list[_Election] = []
        for topic in self._cluster.topics():
            result = m.ElectLeadersResponse.ReplicaElectionResult(topic=topic.name)
            response.replica_election_results.append(result)
            for index in range(topic.partition_count):
                code, message, direction = leaders.elect(topic, index, body.election_type)
                if code is not ErrorCode.ELECTION_NOT_NEEDED:
                    partition = m.ElectLeadersResponse.PartitionResult(
                        partition_id=index, error_code=code, error_message=message
                    )
                    result.partition_result.append(partition)
                    elections += [(direction, partition)] if direction is not None else []
        await self._hold(leaders, elections, body.timeout_ms, response)
        return response

    async def _hold(
        self, leaders: LeaderMoves, elections: list[_Election], timeout_ms: int, response: m.ElectLeadersResponse
    ) -> None:
        directions = [direction for direction, _ in elections]
        try:
            leaders.give(directions)
        except KafkaError as error:
            response.error_code = error.code
            return
        late = await leaders.until_elected(directions, timeout_ms / 1000)
        for direction, partition in elections:
            if direction in late:
                partition.error_code = ErrorCode.REQUEST_TIMED_OUT
                partition.error_message = f"Broker {direction.elected} was elected and does not lead yet."

    def alter_partition_reassignments(
        self, request: Request[m.AlterPartitionReassignmentsRequest]
    ) -> m.AlterPartitionReassignmentsResponse:
        body = request.body
        response = m.AlterPartitionReassignmentsResponse()
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            response.error_code, response.error_message = _DENIED, ClusterAuthorizationFailed.what
            response.responses = [_denied_reassignment(requested) for requested in body.topics]
            return response
        directions: list[Direction] = []
        for requested in body.topics:
            topic = self._cluster.find_topic(requested.name)
            answer = m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=requested.name)
            response.responses.append(answer)
            for partition in requested.partitions:
                result = m.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                    partition_index=partition.partition_index
                )
                answer.partitions.append(result)
                if topic is None or not topic.has_partition(partition.partition_index):
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    result.error_message = "Unable to find a topic or partition of that name."
                elif self._moves is not None:
                    verdict = self._moves.reassign(topic, partition.partition_index, partition.replicas)
                    result.error_code, result.error_message = verdict.code, verdict.message
                    directions += [verdict.direction] if verdict.direction is not None else []
                elif partition.replicas is None:
                    result.error_code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                elif partition.replicas != [self._cluster.node_id]:
                    result.error_code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
                    result.error_message = (
                        f"Broker {self._cluster.node_id} is the only one of this cluster; a partition has one replica, "
                        "there."
                    )
        if self._moves is not None:
            try:
                self._moves.give(directions)
            except KafkaError as error:
                response.error_code, response.error_message = error.code, error.message
        return response

    def list_partition_reassignments(
        self, request: Request[m.ListPartitionReassignmentsRequest]
    ) -> m.ListPartitionReassignmentsResponse:
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE):
            return m.ListPartitionReassignmentsResponse(
                error_code=_DENIED,
                error_message=ClusterAuthorizationFailed.what,
                topics=[_not_listed(requested) for requested in request.body.topics or []],
            )
        response = m.ListPartitionReassignmentsResponse()
        if self._moves is not None:
            wanted = request.body.topics
            names = None if wanted is None else {each.name: set(each.partition_indexes) for each in wanted}
            for topic in self._cluster.topics():
                if names is None or topic.name in names:
                    indexes = range(topic.partition_count) if names is None else sorted(names[topic.name])
                    self._list_moves(self._moves, topic, indexes, response)
        return response

    def _list_moves(
        self,
        leaders: LeaderMoves,
        topic: Topic,
        indexes: Iterable[int],
        response: m.ListPartitionReassignmentsResponse,
    ) -> None:
        found = [leaders.under_way(topic, index) for index in indexes if topic.has_partition(index)]
        partitions = [
            m.ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=each.partition,
                replicas=each.replicas,
                adding_replicas=each.adding,
                removing_replicas=each.removing,
            )
            for each in found
            if each is not None
        ]
        if partitions:
            response.topics.append(
                m.ListPartitionReassignmentsResponse.OngoingTopicReassignment(name=topic.name, partitions=partitions)
            )

    def alter_replica_log_dirs(self, request: Request[m.AlterReplicaLogDirsRequest]) -> m.AlterReplicaLogDirsResponse:
        body = request.body
        response = m.AlterReplicaLogDirsResponse()
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            response.results = [_denied_move(requested) for folder in body.dirs for requested in folder.topics]
            return response
        here = self._storage.volume().path
        folders: dict[str, dict[int, str]] = {}  # of a partition that is named twice the last
        for folder in body.dirs:
            for requested in folder.topics:
                for index in requested.partitions:
                    folders.setdefault(requested.name, {})[index] = folder.path
        for name, partitions in folders.items():
            topic = self._cluster.find_topic(name)
            result = m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=name)
            response.results.append(result)
            for index, path in partitions.items():
                code = ErrorCode.NONE
                if path != here:
                    code = ErrorCode.LOG_DIR_NOT_FOUND
                elif topic is None or not topic.has_partition(index):
                    code = ErrorCode.REPLICA_NOT_AVAILABLE
                result.partitions.append(
                    m.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=code
                    )
                )
        return response

    def describe_quorum(self, request: Request[m.DescribeQuorumRequest]) -> m.DescribeQuorumResponse:
        body = request.body
        response = m.DescribeQuorumResponse
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE):
            return response(error_code=_DENIED, error_message=ClusterAuthorizationFailed.what)
        here = self._cluster.this_broker(request.connection.listener_name)
        now_ms = self._world.now_ms()
        topics = []
        nodes = []
        named = [
            (requested.topic_name, partition.partition_index)
            for requested in body.topics
            for partition in requested.partitions
        ]
        is_answered = len(body.topics) == 1 and named == [(METADATA_TOPIC, 0)]
        for requested in body.topics:
            topic = response.TopicData(topic_name=requested.topic_name)
            topics.append(topic)
            for partition in requested.partitions:
                if not is_answered:
                    topic.partitions.append(
                        response.PartitionData(
                            partition_index=partition.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            error_message=f"The quorum keeps {METADATA_TOPIC}-0 only.",
                        )
                    )
                    continue
                voter = response.ReplicaState(
                    replica_id=self._cluster.node_id,
                    log_end_offset=0,
                    last_fetch_timestamp=now_ms,
                    last_caught_up_timestamp=now_ms,
                )
                topic.partitions.append(
                    response.PartitionData(leader_id=self._cluster.node_id, leader_epoch=1, current_voters=[voter])
                )
                listener = response.Listener(name=request.connection.listener_name, host=here.host, port=here.port)
                nodes = [response.Node(node_id=self._cluster.node_id, listeners=[listener])]
        return response(topics=topics, nodes=nodes)

    def update_features(self, request: Request[m.UpdateFeaturesRequest]) -> m.UpdateFeaturesResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            return m.UpdateFeaturesResponse(error_code=_DENIED, error_message=ClusterAuthorizationFailed.what)
        updates = [Update(each.feature, each.max_version_level, each.upgrade_type) for each in body.feature_updates]
        try:
            self._features.update(updates, validate_only=body.validate_only)
        except KafkaError as error:
            return m.UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        return m.UpdateFeaturesResponse(
            results=[
                m.UpdateFeaturesResponse.UpdatableFeatureResult(feature=name, error_message=_DONE)
                for name, _, _ in updates
            ]
        )

    def unregister_broker(self, request: Request[m.UnregisterBrokerRequest]) -> m.UnregisterBrokerResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            return m.UnregisterBrokerResponse(error_code=_DENIED, error_message=ClusterAuthorizationFailed.what)
        if self._moves is not None:
            try:
                self._moves.retire(body.broker_id)
            except KafkaError as error:
                return m.UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
            return m.UnregisterBrokerResponse()
        if body.broker_id != self._cluster.node_id:
            return m.UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {body.broker_id} is not currently registered",
            )
        return m.UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The only broker of a cluster cannot be unregistered."
        )

    def add_raft_voter(self, request: Request[m.AddRaftVoterRequest]) -> m.AddRaftVoterResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            return m.AddRaftVoterResponse(error_code=_DENIED, error_message=ClusterAuthorizationFailed.what)
        code, text = self._refuse_voter(body.cluster_id)
        if code is ErrorCode.INVALID_REQUEST and body.voter_id == self._cluster.node_id:
            code, text = ErrorCode.DUPLICATE_VOTER, f"Broker {body.voter_id} is the voter already."
        return m.AddRaftVoterResponse(error_code=code, error_message=text)

    def remove_raft_voter(self, request: Request[m.RemoveRaftVoterRequest]) -> m.RemoveRaftVoterResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            return m.RemoveRaftVoterResponse(error_code=_DENIED, error_message=ClusterAuthorizationFailed.what)
        code, text = self._refuse_voter(body.cluster_id)
        is_named = body.voter_id >= 0 and body.voter_directory_id != ZERO_UUID
        if code is ErrorCode.INVALID_REQUEST and is_named:
            code, text = ErrorCode.VOTER_NOT_FOUND, f"There is no voter {body.voter_id} with that directory."
        return m.RemoveRaftVoterResponse(error_code=code, error_message=text)

    def _refuse_voter(self, cluster_id: str | None) -> tuple[ErrorCode, str]:
        if cluster_id is not None and cluster_id != self._cluster.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {self._cluster.cluster_id}."
        return ErrorCode.INVALID_REQUEST, "The metadata of this cluster is not replicated by voters."

    def streams_group_heartbeat(
        self, request: Request[m.StreamsGroupHeartbeatRequest]
    ) -> m.StreamsGroupHeartbeatResponse:
        return m.StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_STREAMS)

    def streams_group_describe(self, request: Request[m.StreamsGroupDescribeRequest]) -> m.StreamsGroupDescribeResponse:
        body = request.body
        return m.StreamsGroupDescribeResponse(
            groups=[
                m.StreamsGroupDescribeResponse.DescribedGroup(
                    error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_STREAMS, group_id=group_id
                )
                for group_id in body.group_ids
            ]
        )


def _denied_election(requested: m.ElectLeadersRequest.TopicPartitions) -> m.ElectLeadersResponse.ReplicaElectionResult:
    return m.ElectLeadersResponse.ReplicaElectionResult(
        topic=requested.topic,
        partition_result=[
            m.ElectLeadersResponse.PartitionResult(
                partition_id=index, error_code=_DENIED, error_message=ClusterAuthorizationFailed.what
            )
            for index in requested.partitions
        ],
    )


def _denied_reassignment(
    requested: m.AlterPartitionReassignmentsRequest.ReassignableTopic,
) -> m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse:
    return m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
        name=requested.name,
        partitions=[
            m.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                partition_index=partition.partition_index,
                error_code=_DENIED,
                error_message=ClusterAuthorizationFailed.what,
            )
            for partition in requested.partitions
        ],
    )


def _not_listed(
    requested: m.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics,
) -> m.ListPartitionReassignmentsResponse.OngoingTopicReassignment:
    return m.ListPartitionReassignmentsResponse.OngoingTopicReassignment(
        name=requested.name,
        partitions=[
            m.ListPartitionReassignmentsResponse.OngoingPartitionReassignment(partition_index=index)
            for index in requested.partition_indexes
        ],
    )


def _denied_move(
    requested: m.AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic,
) -> m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult:
    return m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
        topic_name=requested.name,
        partitions=[
            m.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_DENIED)
            for index in requested.partitions
        ],
    )
