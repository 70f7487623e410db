"""Responses that say that all of a request failed."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


def with_error(response: object, error: ErrorCode) -> object:
    """A response to the same request as `response`, with an error in every place where there is room for one."""
    if isinstance(response, m.OffsetCommitResponse | m.TxnOffsetCommitResponse):
        for topic in response.topics:
            for partition in topic.partitions:
                partition.error_code = error
        return response
    if isinstance(response, list):  # the results of DeleteGroups
        for result in response:
            result.error_code = error
        return response
    if isinstance(response, m.JoinGroupResponse):
        return m.JoinGroupResponse(error_code=error, member_id=response.member_id, protocol_name=None)
    if isinstance(response, m.Message) and hasattr(response, "error_code"):
        return type(response)(error_code=error)  # type: ignore[call-arg]
    return response


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
