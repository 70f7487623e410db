"""Members of groups, what is known of groups, and who coordinates them.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ShareGroupHeartbeat, and the APIs that list,
describe and delete groups. Also FindCoordinator.

All rules are the coordinator's (`penstock.groups`). A handler finds the shard of the group and shapes what differs
between versions:

* FindCoordinator creates the internal topic on first use and answers with this broker at once (Apache Kafka answers
  COORDINATOR_NOT_AVAILABLE first and has the client ask again). From version 4 on it takes several keys.
* While a shard is loading everything gets COORDINATOR_LOAD_IN_PROGRESS, except Heartbeat, which is answered with
  success: a member must not give up its partitions because the broker was restarted.
* JoinGroup below version 7 cannot carry a null protocol name; LeaveGroup below 3 has one member, and its error at the
  top; SyncGroup from 5 on must name protocol type and protocol.
* Members need READ on the group and DESCRIBE on the topics that they name; who looks needs DESCRIBE, and sees no group
  with a topic that it may not describe; who deletes needs DELETE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers.group_commands import GroupCommands
from penstock.broker.handlers.table import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
)
from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.security.acls import CLUSTER_NAME
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource

if TYPE_CHECKING:
    from penstock.broker.cluster_view import BrokerEndpoint, ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.coordination.runtime import CoordinatorRuntime
from penstock.wire.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    error_class,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_KEYS_VERSION = 6
_BATCHED_KEYS_VERSION = 4
_NULL_PROTOCOL_VERSION = 7
_BATCHED_LEAVE_VERSION = 3
_MANDATORY_PROTOCOL_VERSION = 5
_AUTHORIZED_OPERATIONS_VERSION = 3
_DENIALS = (
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
_TOPICS_NOT_SHOWN = "The group has described topic(s) that the client is not authorized to describe."


class GroupHandlers:
    def __init__(
        self,
        commands: GroupCommands,
        groups: GroupCoordinator,
        cluster: ClusterView,
        runtimes: Mapping[int, Callable[[], CoordinatorRuntime[Any]]],
        gate: Gate,
    ) -> None:
        """`runtimes`: the coordinators, by the type of the keys that they are responsible for."""
        self._commands = commands
        self._groups = groups
        self._cluster = cluster
        self._runtimes = runtimes
        self._gate = gate

    # ---- FindCoordinator ---------------------------------------------------------------------------------------------

    def find_coordinator(self, request: Request[m.FindCoordinatorRequest]) -> m.FindCoordinatorResponse:
        body = request.body
        response = m.FindCoordinatorResponse
        if request.api_version >= _BATCHED_KEYS_VERSION:
            return response(coordinators=[self._coordinator(request, body.key_type, k) for k in body.coordinator_keys])
        found = self._coordinator(request, body.key_type, body.key)
        # "NONE" is Kafka's message for success in these versions.
        message: str | None = "NONE"
        if found.error_code != ErrorCode.NONE:
            is_explained = found.error_code in (ErrorCode.INVALID_REQUEST, *_DENIALS)
            message = error_class(found.error_code).what if is_explained else found.error_message
        return response(
            error_code=found.error_code, error_message=message, node_id=found.node_id, host=found.host, port=found.port
        )

    def _coordinator(
        self, request: Request[m.FindCoordinatorRequest], key_type: int, key: str
    ) -> m.FindCoordinatorResponse.Coordinator:
        coordinator = m.FindCoordinatorResponse.Coordinator
        if key_type == GROUP and not self._gate.allows(request, *DESCRIBE_GROUP, key):
            return _no_coordinator(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
        if key_type == TRANSACTION and not self._gate.allows(request, *DESCRIBE_TRANSACTIONAL_ID, key):
            return _no_coordinator(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")
        if (
            key_type == SHARE
            and request.api_version >= _SHARE_KEYS_VERSION
            and not self._gate.allows_on_cluster(request, AclOperation.CLUSTER_ACTION)
        ):
            return _no_coordinator(key, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ClusterAuthorizationFailed.what)
        runtime = self._runtimes.get(key_type)
        if key_type == SHARE and not (request.api_version >= _SHARE_KEYS_VERSION and _is_share_key(key)):
            runtime = None
        if runtime is None:
            message = None if key_type == SHARE else f"There is no coordinator of type {key_type}."
            return _no_coordinator(key, ErrorCode.INVALID_REQUEST, message)
        try:
            broker = self._broker_of(runtime(), key, request.connection.listener_name)
        except KafkaError as error:
            return _no_coordinator(key, error.code, error.message)
        # A null message would be right for newer versions, but Kafka leaves the field at its default.
        return coordinator(key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_message="")

    def _broker_of(self, runtime: CoordinatorRuntime[Any], key: str, listener_name: str) -> BrokerEndpoint:
        """The broker that leads the partition of the coordinator's topic which is responsible for a key."""
        index = runtime.partition_for(key)
        leader = self._cluster.leader(self._cluster.topic(runtime.topic_name), index)
        broker = None if leader is None else self._cluster.broker(leader.node_id, listener_name)
        if broker is None:
            raise CoordinatorNotAvailable
        return broker

    # ---- classic protocol --------------------------------------------------------------------------------------------

    def join_group(self, request: Request[m.JoinGroupRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            no_name = None if request.api_version >= _NULL_PROTOCOL_VERSION else ""
            return m.JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=no_name)

        def shape(response: m.JoinGroupResponse) -> m.JoinGroupResponse:
            if request.api_version < _NULL_PROTOCOL_VERSION and response.protocol_name is None:
                response.protocol_name = ""
            return response

        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.join_group(respond, context, body),
            lambda code: shape(m.JoinGroupResponse(error_code=code, member_id=body.member_id, protocol_name=None)),
            shape,
        )

    def sync_group(self, request: Request[m.SyncGroupRequest]) -> Answer:
        body = request.body
        if request.api_version >= _MANDATORY_PROTOCOL_VERSION and (
            body.protocol_type is None or body.protocol_name is None
        ):
            return m.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return m.SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.sync_group(respond, context, body),
            lambda code: m.SyncGroupResponse(error_code=code),
        )

    def heartbeat(self, request: Request[m.HeartbeatRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return m.HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

        def failed(code: ErrorCode) -> m.HeartbeatResponse:
            return m.HeartbeatResponse(
                error_code=ErrorCode.NONE if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
            )

        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.heartbeat(respond, context, body),
            failed,
        )

    def leave_group(self, request: Request[m.LeaveGroupRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return m.LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if request.api_version < _BATCHED_LEAVE_VERSION:
            body.members = [m.LeaveGroupRequest.MemberIdentity(member_id=body.member_id)]

        def shape(response: m.LeaveGroupResponse) -> m.LeaveGroupResponse:
            if request.api_version < _BATCHED_LEAVE_VERSION:
                code = response.error_code or next((member.error_code for member in response.members), ErrorCode.NONE)
                return m.LeaveGroupResponse(error_code=code)
            return response

        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.leave_group(respond, context, body),
            lambda code: m.LeaveGroupResponse(error_code=code),
            shape,
        )

    # ---- consumer and share protocol ---------------------------------------------------------------------------------

    def consumer_group_heartbeat(self, request: Request[m.ConsumerGroupHeartbeatRequest]) -> Answer:
        body = request.body
        denied = self._membership_denial(request, body.group_id, body.subscribed_topic_names)
        if denied is not None:
            return m.ConsumerGroupHeartbeatResponse(error_code=denied)
        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.consumer_group_heartbeat(respond, context, body),
            lambda code: m.ConsumerGroupHeartbeatResponse(error_code=code),
        )

    def share_group_heartbeat(self, request: Request[m.ShareGroupHeartbeatRequest]) -> Answer:
        body = request.body
        denied = self._membership_denial(request, body.group_id, body.subscribed_topic_names)
        if denied is not None:
            return m.ShareGroupHeartbeatResponse(error_code=denied)
        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.share_group_heartbeat(respond, context, body),
            lambda code: m.ShareGroupHeartbeatResponse(error_code=code),
        )

    def _membership_denial(self, request: AnyRequest, group_id: str, topics: list[str] | None) -> ErrorCode | None:
        """Why somebody may not be a member who subscribes to these topics."""
        if not self._gate.allows(request, *READ_GROUP, group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not all(self._gate.allows(request, *DESCRIBE_TOPIC, name) for name in dict.fromkeys(topics or ())):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None

    # ---- groups from outside -----------------------------------------------------------------------------------------

    def list_groups(self, request: Request[m.ListGroupsRequest]) -> m.ListGroupsResponse:
        body = request.body
        runtime = self._groups.runtime
        if runtime.is_loading:
            return m.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        sees_all = self._gate.shows(request, AclOperation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME)
        return m.ListGroupsResponse(
            groups=[
                listed
                for handle in reversed(runtime.loaded_handles())
                for listed in handle.shard.list_groups(body.states_filter, body.types_filter)
                if sees_all or self._gate.shows(request, *DESCRIBE_GROUP, listed.group_id)
            ]
        )

    def describe_groups(self, request: Request[m.DescribeGroupsRequest]) -> m.DescribeGroupsResponse:
        body = request.body
        response = m.DescribeGroupsResponse()
        allowed, denied = self._describable(request, body.groups)
        for group_id in denied:
            response.groups.append(
                m.DescribeGroupsResponse.DescribedGroup(
                    group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
        for group_id in allowed:
            try:
                described = self._groups.find(group_id).shard.describe_group(group_id, request.api_version)
            except KafkaError as error:
                described = m.DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.code)
            if (
                body.include_authorized_operations
                and request.api_version >= _AUTHORIZED_OPERATIONS_VERSION
                and described.error_code == ErrorCode.NONE
            ):
                described.authorized_operations = self._gate.operations(request, AclResource.GROUP, group_id)
            response.groups.append(described)
        return response

    def consumer_group_describe(
        self, request: Request[m.ConsumerGroupDescribeRequest]
    ) -> m.ConsumerGroupDescribeResponse:
        body = request.body
        response = m.ConsumerGroupDescribeResponse()
        allowed, denied = self._describable(request, body.group_ids)
        for group_id in denied:
            response.groups.append(
                m.ConsumerGroupDescribeResponse.DescribedGroup(
                    group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
        for group_id in allowed:
            try:
                described = self._groups.find(group_id).shard.consumer_group_describe(group_id)
            except KafkaError as error:
                described = m.ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id, error_code=error.code)
            if body.include_authorized_operations and described.error_code == ErrorCode.NONE:
                described.authorized_operations = self._gate.operations(request, AclResource.GROUP, group_id)
            assigned = [a for member in described.members for a in (member.assignment, member.target_assignment)]
            if not self._may_see(request, (each.topic_name for a in assigned for each in a.topic_partitions)):
                described = m.ConsumerGroupDescribeResponse.DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=_TOPICS_NOT_SHOWN,
                )
            response.groups.append(described)
        return response

    def _describable(self, request: AnyRequest, group_ids: list[str]) -> tuple[list[str], list[str]]:
        """The groups that may be described, and the others."""
        allowed = [group_id for group_id in group_ids if self._gate.allows(request, *DESCRIBE_GROUP, group_id)]
        return allowed, [group_id for group_id in group_ids if group_id not in allowed]

    def _may_see(self, request: AnyRequest, topics: Iterable[str]) -> bool:
        return self._gate.is_open or all(self._gate.allows(request, *DESCRIBE_TOPIC, name) for name in set(topics))

    def share_group_describe(self, request: Request[m.ShareGroupDescribeRequest]) -> m.ShareGroupDescribeResponse:
        body = request.body
        response = m.ShareGroupDescribeResponse()
        allowed, denied = self._describable(request, body.group_ids)
        for group_id in denied:
            response.groups.append(
                m.ShareGroupDescribeResponse.DescribedGroup(
                    group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
        for group_id in allowed:
            try:
                described = self._groups.find(group_id).shard.share_group_describe(group_id)
            except KafkaError as error:
                described = m.ShareGroupDescribeResponse.DescribedGroup(group_id=group_id, error_code=error.code)
            if body.include_authorized_operations and described.error_code == ErrorCode.NONE:
                described.authorized_operations = self._gate.operations(request, AclResource.GROUP, group_id)
            assigned = [each.topic_name for member in described.members for each in member.assignment.topic_partitions]
            if not self._may_see(request, assigned):
                described = m.ShareGroupDescribeResponse.DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=_TOPICS_NOT_SHOWN,
                )
            response.groups.append(described)
        return response

    def delete_groups(self, request: Request[m.DeleteGroupsRequest]) -> Answer:
        """Groups of one request may belong to several shards: the answer goes out when the last has its part."""
        body = request.body
        response = m.DeleteGroupsResponse()
        result = m.DeleteGroupsResponse.DeletableGroupResult
        by_shard: dict[int, list[str]] = {}
        denied = []
        for group_id in dict.fromkeys(body.groups_names):
            if not self._gate.allows(request, *DELETE_GROUP, group_id):
                denied.append(result(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
                continue
            try:
                by_shard.setdefault(self._groups.find(group_id).index, []).append(group_id)
            except KafkaError as error:
                response.results.append(result(group_id=group_id, error_code=error.code))
        pending = request.defer()
        waiting = set(by_shard)

        def part_done(index: int, results: list[m.DeleteGroupsResponse.DeletableGroupResult]) -> None:
            response.results.extend(results)
            waiting.discard(index)
            if not waiting:
                response.results.extend(denied)
                pending.complete(response)

        for index, group_ids in by_shard.items():
            handle = self._groups.runtime.handle(index)
            handle.run(
                handle.shard.delete_groups(partial(part_done, index), self._commands.context_of(request), group_ids)
            )
        if by_shard:
            return pending
        response.results.extend(denied)
        return response


def _no_coordinator(key: str, code: ErrorCode, message: str | None) -> m.FindCoordinatorResponse.Coordinator:
    return m.FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


def _is_share_key(key: str) -> bool:
    """`group:topic id:partition`; the group's name may hold colons itself."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and bool(parts[0]) and len(parts[1]) == 22 and parts[2].isdigit()
