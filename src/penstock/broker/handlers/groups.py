"""Groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ShareGroupHeartbeat, and the APIs that
list, describe and delete groups. Also FindCoordinator.

All rules are the coordinator's (`penstock.groups`). A handler finds the shard of the group and shapes what differs
between versions:

* FindCoordinator creates the internal topic on first use and answers with this broker at once (Apache Kafka answers
  COORDINATOR_NOT_AVAILABLE first and has the client ask again). From version 4 on it takes several keys.
* While a shard is loading everything gets COORDINATOR_LOAD_IN_PROGRESS, except Heartbeat, which is answered with
  success: a member must not give up its partitions because the broker was restarted.
* JoinGroup below version 7 cannot carry a null protocol name; LeaveGroup below 3 has one member, and its error at the
  top; SyncGroup from 5 on must name protocol type and protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.requests import Answer, Request
from penstock.groups.effects import Effects, RequestContext
from penstock.groups.shard import GroupShard
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from penstock.broker.server import Broker

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_KEYS_VERSION = 6
_BATCHED_KEYS_VERSION = 4
_NULL_PROTOCOL_VERSION = 7
_BATCHED_LEAVE_VERSION = 3
_MANDATORY_PROTOCOL_VERSION = 5
_AUTHORIZED_OPERATIONS_VERSION = 3

# Bits by operation code: read 3, delete 6, describe 8, describe configs 10, alter configs 11.
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))

Command = Callable[[GroupShard, object, RequestContext], Effects]


def context_of(broker: Broker, request: Request) -> RequestContext:
    return RequestContext(broker.now_ms(), request.api_version, request.client_id, request.client_host)


def run_on_shard(
    broker: Broker,
    request: Request,
    group_id: str,
    command: Command,
    failed: Callable[[ErrorCode], m.Message],
    shape: Callable[[m.Message], m.Message] | None = None,
) -> Answer:
    """Run a command on the shard of a group. The reply, now or later, goes through `shape`."""
    try:
        handle = broker.groups.find(group_id)
    except KafkaError as error:
        return failed(error.code)
    pending = request.defer()
    token: object = pending
    if shape is not None:

        def token(response: object) -> None:
            assert isinstance(response, m.Message)
            pending.complete(shape(response))

    handle.run(command(handle.shard, token, context_of(broker, request)))
    return pending


# ---- FindCoordinator -------------------------------------------------------------------------------------------------


def handle_find_coordinator(broker: Broker, request: Request) -> m.FindCoordinatorResponse:
    body = request.body
    assert isinstance(body, m.FindCoordinatorRequest)
    response = m.FindCoordinatorResponse
    if request.api_version >= _BATCHED_KEYS_VERSION:
        return response(coordinators=[_coordinator(broker, request, body.key_type, k) for k in body.coordinator_keys])
    found = _coordinator(broker, request, body.key_type, body.key)
    # "NONE" is Kafka's message for success in these versions.
    message = "NONE" if found.error_code == ErrorCode.NONE else InvalidRequest.what
    return response(
        error_code=found.error_code, error_message=message, node_id=found.node_id, host=found.host, port=found.port
    )


def _coordinator(broker: Broker, request: Request, key_type: int, key: str) -> m.FindCoordinatorResponse.Coordinator:
    coordinator = m.FindCoordinatorResponse.Coordinator
    if key_type == GROUP:
        broker.groups.runtime.topic()
    elif key_type == TRANSACTION:
        broker.transactions.runtime.topic()
    elif key_type == SHARE and request.api_version >= _SHARE_KEYS_VERSION and _is_share_key(key):
        broker.share_groups.runtime.topic()
    else:
        message = None if key_type == SHARE else f"There is no coordinator of type {key_type}."
        refused = coordinator(key=key, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
        refused.node_id, refused.host, refused.port = -1, "", -1
        return refused
    host, port = broker.advertised_address(request.connection.listener_name)
    # A null message would be right for newer versions, but Kafka leaves the field at its default.
    return coordinator(key=key, node_id=broker.node_id, host=host, port=port, error_message="")


def _is_share_key(key: str) -> bool:
    """`group:topic id:partition`; the group's name may hold colons itself."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and bool(parts[0]) and len(parts[1]) == 22 and parts[2].isdigit()


# ---- classic protocol ------------------------------------------------------------------------------------------------


def handle_join_group(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.JoinGroupRequest)

    def shape(response: m.Message) -> m.Message:
        assert isinstance(response, m.JoinGroupResponse)
        if request.api_version < _NULL_PROTOCOL_VERSION and response.protocol_name is None:
            response.protocol_name = ""
        return response

    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.join_group(token, context, body),
        lambda code: shape(m.JoinGroupResponse(error_code=code, member_id=body.member_id, protocol_name=None)),
        shape,
    )


def handle_sync_group(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.SyncGroupRequest)
    if request.api_version >= _MANDATORY_PROTOCOL_VERSION and (
        body.protocol_type is None or body.protocol_name is None
    ):
        return m.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.sync_group(token, context, body),
        lambda code: m.SyncGroupResponse(error_code=code),
    )


def handle_heartbeat(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.HeartbeatRequest)

    def failed(code: ErrorCode) -> m.HeartbeatResponse:
        return m.HeartbeatResponse(
            error_code=ErrorCode.NONE if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
        )

    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.heartbeat(token, context, body),
        failed,
    )


def handle_leave_group(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.LeaveGroupRequest)
    if request.api_version < _BATCHED_LEAVE_VERSION:
        body.members = [m.LeaveGroupRequest.MemberIdentity(member_id=body.member_id)]

    def shape(response: m.Message) -> m.Message:
        assert isinstance(response, m.LeaveGroupResponse)
        if request.api_version < _BATCHED_LEAVE_VERSION:
            code = response.error_code or next((member.error_code for member in response.members), ErrorCode.NONE)
            return m.LeaveGroupResponse(error_code=code)
        return response

    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.leave_group(token, context, body),
        lambda code: m.LeaveGroupResponse(error_code=code),
        shape,
    )


# ---- consumer and share protocol -------------------------------------------------------------------------------------


def handle_consumer_group_heartbeat(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.ConsumerGroupHeartbeatRequest)
    if not broker.groups.consumer_protocol_is_enabled:
        return m.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.consumer_group_heartbeat(token, context, body),
        lambda code: m.ConsumerGroupHeartbeatResponse(error_code=code),
    )


def handle_share_group_heartbeat(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.ShareGroupHeartbeatRequest)
    return run_on_shard(
        broker,
        request,
        body.group_id,
        lambda shard, token, context: shard.share_group_heartbeat(token, context, body),
        lambda code: m.ShareGroupHeartbeatResponse(error_code=code),
    )


# ---- groups from outside ---------------------------------------------------------------------------------------------


def handle_list_groups(broker: Broker, request: Request) -> m.ListGroupsResponse:
    body = request.body
    assert isinstance(body, m.ListGroupsRequest)
    runtime = broker.groups.runtime
    if runtime.is_loading:
        return m.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return m.ListGroupsResponse(
        groups=[
            listed
            for handle in reversed(runtime.loaded_handles())
            for listed in handle.shard.list_groups(body.states_filter, body.types_filter)
        ]
    )


def handle_describe_groups(broker: Broker, request: Request) -> m.DescribeGroupsResponse:
    body = request.body
    assert isinstance(body, m.DescribeGroupsRequest)
    response = m.DescribeGroupsResponse()
    for group_id in body.groups:
        try:
            described = broker.groups.find(group_id).shard.describe_group(group_id, request.api_version)
        except KafkaError as error:
            described = m.DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.code)
        if (
            body.include_authorized_operations
            and request.api_version >= _AUTHORIZED_OPERATIONS_VERSION
            and described.error_code == ErrorCode.NONE
        ):
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


def handle_consumer_group_describe(broker: Broker, request: Request) -> m.ConsumerGroupDescribeResponse:
    body = request.body
    assert isinstance(body, m.ConsumerGroupDescribeRequest)
    response = m.ConsumerGroupDescribeResponse()
    for group_id in body.group_ids:
        try:
            if not broker.groups.consumer_protocol_is_enabled:
                raise UnsupportedVersion
            described = broker.groups.find(group_id).shard.consumer_group_describe(group_id)
        except KafkaError as error:
            described = m.ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id, error_code=error.code)
        if body.include_authorized_operations and described.error_code == ErrorCode.NONE:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


def handle_share_group_describe(broker: Broker, request: Request) -> m.ShareGroupDescribeResponse:
    body = request.body
    assert isinstance(body, m.ShareGroupDescribeRequest)
    response = m.ShareGroupDescribeResponse()
    for group_id in body.group_ids:
        try:
            described = broker.groups.find(group_id).shard.share_group_describe(group_id)
        except KafkaError as error:
            described = m.ShareGroupDescribeResponse.DescribedGroup(group_id=group_id, error_code=error.code)
        if body.include_authorized_operations and described.error_code == ErrorCode.NONE:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


def handle_delete_groups(broker: Broker, request: Request) -> Answer:
    """Groups of one request may belong to several shards: the answer goes out when the last of them has its part."""
    body = request.body
    assert isinstance(body, m.DeleteGroupsRequest)
    response = m.DeleteGroupsResponse()
    result = m.DeleteGroupsResponse.DeletableGroupResult
    by_shard: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(body.groups_names):
        try:
            by_shard.setdefault(broker.groups.find(group_id).index, []).append(group_id)
        except KafkaError as error:
            response.results.append(result(group_id=group_id, error_code=error.code))
    pending = request.defer()
    waiting = set(by_shard)

    def part_done(index: int, results: list[m.DeleteGroupsResponse.DeletableGroupResult]) -> None:
        response.results.extend(results)
        waiting.discard(index)
        if not waiting:
            pending.complete(response)

    for index, group_ids in by_shard.items():
        handle = broker.groups.runtime.handle(index)

        def token(results: object, index: int = index) -> None:
            assert isinstance(results, list)
            part_done(index, results)

        handle.run(handle.shard.delete_groups(token, context_of(broker, request), group_ids))
    return pending if by_shard else response
