"""Responses that say that all of a request failed, and replies that become them when nothing can be written."""

from __future__ import annotations

from functools import partial

from penstock.coordination.effects import Effects, Respond
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


def join_error(member_id: str, error: ErrorCode) -> m.JoinGroupResponse:
    return m.JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def sync_error(error: ErrorCode) -> m.SyncGroupResponse:
    return m.SyncGroupResponse(error_code=error)


def leave_error(error: ErrorCode) -> m.LeaveGroupResponse:
    return m.LeaveGroupResponse(error_code=error)


def consumer_heartbeat_error(error: ErrorCode) -> m.ConsumerGroupHeartbeatResponse:
    return m.ConsumerGroupHeartbeatResponse(error_code=error)


def share_heartbeat_error(error: ErrorCode) -> m.ShareGroupHeartbeatResponse:
    return m.ShareGroupHeartbeatResponse(error_code=error)


def offset_delete_error(error: ErrorCode) -> m.OffsetDeleteResponse:
    return m.OffsetDeleteResponse(error_code=error)


def commit_error(request: m.OffsetCommitRequest, error: ErrorCode) -> m.OffsetCommitResponse:
    response = m.OffsetCommitResponse
    return response(
        topics=[
            response.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    response.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_error(request: m.TxnOffsetCommitRequest, error: ErrorCode) -> m.TxnOffsetCommitResponse:
    response = m.TxnOffsetCommitResponse
    return response(
        topics=[
            response.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    response.TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def reply_join(effects: Effects, respond: Respond[m.JoinGroupResponse], response: m.JoinGroupResponse) -> None:
    effects.reply(respond, response, partial(join_error, response.member_id))


def reply_sync(effects: Effects, respond: Respond[m.SyncGroupResponse], response: m.SyncGroupResponse) -> None:
    effects.reply(respond, response, sync_error)
