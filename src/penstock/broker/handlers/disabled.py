"""What APIs of a feature that is switched off answer: UNSUPPORTED_VERSION, in the form that each response has for it.

`broker.features` says which they are. The handlers of a feature do not look whether it is on: the dispatcher is handed
these in their place.
"""

from __future__ import annotations

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_CODE = ErrorCode.UNSUPPORTED_VERSION


class DisabledHandlers:
    def consumer_group_heartbeat(
        self, request: Request[m.ConsumerGroupHeartbeatRequest]
    ) -> m.ConsumerGroupHeartbeatResponse:
        return m.ConsumerGroupHeartbeatResponse(error_code=_CODE)

    def consumer_group_describe(
        self, request: Request[m.ConsumerGroupDescribeRequest]
    ) -> m.ConsumerGroupDescribeResponse:
        answer = m.ConsumerGroupDescribeResponse
        return answer(groups=[answer.DescribedGroup(error_code=_CODE, group_id=id_) for id_ in request.body.group_ids])

    def share_group_heartbeat(self, request: Request[m.ShareGroupHeartbeatRequest]) -> m.ShareGroupHeartbeatResponse:
        return m.ShareGroupHeartbeatResponse(error_code=_CODE)

    def share_group_describe(self, request: Request[m.ShareGroupDescribeRequest]) -> m.ShareGroupDescribeResponse:
        answer = m.ShareGroupDescribeResponse
        return answer(groups=[answer.DescribedGroup(error_code=_CODE, group_id=id_) for id_ in request.body.group_ids])

    def share_fetch(self, request: Request[m.ShareFetchRequest]) -> m.ShareFetchResponse:
        return m.ShareFetchResponse(error_code=_CODE)

    def share_acknowledge(self, request: Request[m.ShareAcknowledgeRequest]) -> m.ShareAcknowledgeResponse:
        return m.ShareAcknowledgeResponse(error_code=_CODE)

    def describe_share_group_offsets(
        self, request: Request[m.DescribeShareGroupOffsetsRequest]
    ) -> m.DescribeShareGroupOffsetsResponse:
        answer = m.DescribeShareGroupOffsetsResponse
        return answer(
            groups=[
                answer.DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=_CODE)
                for group in request.body.groups
            ]
        )

    def alter_share_group_offsets(
        self, request: Request[m.AlterShareGroupOffsetsRequest]
    ) -> m.AlterShareGroupOffsetsResponse:
        return m.AlterShareGroupOffsetsResponse(error_code=_CODE)

    def delete_share_group_offsets(
        self, request: Request[m.DeleteShareGroupOffsetsRequest]
    ) -> m.DeleteShareGroupOffsetsResponse:
        return m.DeleteShareGroupOffsetsResponse(error_code=_CODE)
