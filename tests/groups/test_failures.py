from __future__ import annotations

from penstock.coordination.effects import Effects
from penstock.groups.failures import (
    commit_error,
    join_error,
    leave_error,
    offset_delete_error,
    reply_join,
    reply_sync,
    txn_commit_error,
)
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

ERROR = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_commit_fails_for_every_partition_that_it_names() -> None:
    request = m.OffsetCommitRequest
    topic = request.OffsetCommitRequestTopic(
        name="t", partitions=[request.OffsetCommitRequestPartition(partition_index=index) for index in (0, 4)]
    )
    [failed] = commit_error(request(topics=[topic]), ERROR).topics
    assert failed.name == "t"
    assert [(each.partition_index, each.error_code) for each in failed.partitions] == [(0, ERROR), (4, ERROR)]


def test_a_commit_inside_a_transaction_fails_for_every_partition_that_it_names() -> None:
    request = m.TxnOffsetCommitRequest
    topic = request.TxnOffsetCommitRequestTopic(
        name="t", partitions=[request.TxnOffsetCommitRequestPartition(partition_index=index) for index in (0, 4)]
    )
    [failed] = txn_commit_error(request(topics=[topic]), ERROR).topics
    assert failed.name == "t"
    assert [(each.partition_index, each.error_code) for each in failed.partitions] == [(0, ERROR), (4, ERROR)]


def test_a_member_keeps_its_id_when_its_join_cannot_be_written() -> None:
    responses: list[m.JoinGroupResponse] = []
    effects = Effects()
    reply_join(effects, responses.append, m.JoinGroupResponse(member_id="m-1", generation_id=3))
    effects.fail(ERROR)
    assert responses == [join_error("m-1", ERROR)]


def test_nobody_gets_an_assignment_that_could_not_be_written() -> None:
    responses: list[m.SyncGroupResponse] = []
    effects = Effects()
    reply_sync(effects, responses.append, m.SyncGroupResponse(assignment=b"all of it"))
    effects.fail(ERROR)
    assert [(response.error_code, response.assignment) for response in responses] == [(ERROR, b"")]


def test_what_fails_as_a_whole_has_one_error() -> None:
    assert leave_error(ERROR) == m.LeaveGroupResponse(error_code=ERROR)
    assert offset_delete_error(ERROR) == m.OffsetDeleteResponse(error_code=ERROR)
