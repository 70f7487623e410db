"""ShareFetch and ShareAcknowledge (KIP-932; version 2: KIP-1206 acquire modes and KIP-1222 renewal).

**ShareFetch** opens, updates or closes a share session, takes the acknowledgements that ride along, and waits for
records: at most `MaxRecords` of them in either acquire mode, whatever the producer's batches hold. Both results go into
one response. A fetch that asks for no records or bytes, or renews locks, only acknowledges. When the broker's sessions
are used up the refusal is held back for `MaxWaitMs`, so that the client does not ask again at once.

**ShareAcknowledge** is the same without the fetch. Epoch -1 in either closes the session, and what it held comes back.

Faults of the request or the session are answered at the top; faults of a partition with that partition, one code for
all its acknowledgements. A topic id may appear more than once in a request (librdkafka does not sort): partitions are
merged.

Both need READ on the group and on each topic. When rules change, waiting fetches are checked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.broker.share.acknowledge import ShareAcknowledge
from penstock.broker.share.fetch import ShareFetch
from penstock.broker.share.rights import ReadRights
from penstock.queues.acknowledgements import WireBatch, check_batches
from penstock.queues.sessions import FINAL_EPOCH, ShareSession, TopicIdPartition, check_ids
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    ShareSessionLimitReached,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.quotas import Quotas
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.traffic import Traffic
    from penstock.broker.world import World

_RENEWAL = 2
"""The version of both requests that brought renewal."""


class QueueHandlers:
    def __init__(
        self,
        share_groups: ShareGroups,
        cluster: ClusterView,
        world: World,
        gate: Gate,
        quotas: Quotas,
        traffic: Traffic | None,
    ) -> None:
        """`traffic` counts what is sent, where somebody looks at the metrics."""
        self._share_groups = share_groups
        self._cluster = cluster
        self._world = world
        self._gate = gate
        self._quotas = quotas
        self._traffic = traffic
        gate.on_rules_changed.append(share_groups.sessions.rules_changed)

    def share_fetch(self, request: Request[m.ShareFetchRequest]) -> Answer:
        body = request.body
        groups = self._share_groups
        groups.metrics.fetches += 1
        rights = ReadRights(self._gate, self._cluster, request, body.group_id or "")
        if not rights.may_use_group():
            groups.metrics.failed_fetches += 1
            return m.ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        requested: dict[TopicIdPartition, list[m.ShareFetchRequest.AcknowledgementBatch]] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                requested.setdefault((topic.topic_id, partition.partition_index), []).extend(
                    partition.acknowledgement_batches
                )
        forgotten = [(topic.topic_id, index) for topic in body.forgotten_topics_data for index in topic.partitions]
        try:
            group_id, member_id = check_ids(body.group_id, body.member_id)
            _check_renewal(body)
            session = groups.sessions.fetch(
                group_id,
                member_id,
                body.share_session_epoch,
                request.connection,
                added=requested,
                forgotten=forgotten,
                has_acknowledgements=any(requested.values()),
                max_sessions=groups.config.group_share_max_share_sessions,
            )
        except ShareSessionLimitReached as error:
            groups.metrics.failed_fetches += 1
            refused = request.defer()
            self._world.call_later(max(0, body.max_wait_ms) / 1000, refused.complete, _fetch_error(error))
            return refused
        except KafkaError as error:
            groups.metrics.failed_fetches += 1
            return _fetch_error(error)
        is_final = body.share_session_epoch == FINAL_EPOCH
        wants_records = not is_final and not body.is_renew_ack and body.max_records > 0 and body.max_bytes > 0
        earlier = groups.sessions.parked.get(session)
        if earlier is not None:
            earlier.give_up()
        fetch = ShareFetch(groups, self._world, self._quotas, self._traffic, request, session, rights, wants_records)
        for share_partition, batches in requested.items():
            if batches:
                fetch.expect_acknowledgement(share_partition)
                _acknowledge(groups, request, session, rights, share_partition, batches, body.is_renew_ack, fetch)
        fetch.start()
        if is_final:
            groups.sessions.end(session)
        return fetch.pending

    def share_acknowledge(self, request: Request[m.ShareAcknowledgeRequest]) -> Answer:
        body = request.body
        groups = self._share_groups
        groups.metrics.acknowledges += 1
        rights = ReadRights(self._gate, self._cluster, request, body.group_id or "")
        if not rights.may_use_group():
            groups.metrics.failed_acknowledges += 1
            return m.ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        requested: dict[TopicIdPartition, list[m.ShareAcknowledgeRequest.AcknowledgementBatch]] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                requested.setdefault((topic.topic_id, partition.partition_index), []).extend(
                    partition.acknowledgement_batches
                )
        try:
            group_id, member_id = check_ids(body.group_id, body.member_id)
            session = groups.sessions.acknowledge(group_id, member_id, body.share_session_epoch)
        except KafkaError as error:
            groups.metrics.failed_acknowledges += 1
            return m.ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
        acknowledge = ShareAcknowledge(groups.settings, request, session)
        for share_partition in requested:
            acknowledge.expect_acknowledgement(share_partition)
        for share_partition, batches in requested.items():
            _acknowledge(groups, request, session, rights, share_partition, batches, body.is_renew_ack, acknowledge)
        acknowledge.start()
        if body.share_session_epoch == FINAL_EPOCH:
            groups.sessions.end(session)
        return acknowledge.pending


def _acknowledge(
    groups: ShareGroups,
    request: AnyRequest,
    session: ShareSession,
    rights: ReadRights,
    share_partition: TopicIdPartition,
    batches: Iterable[WireBatch],
    is_renew: bool,
    waits: ShareFetch | ShareAcknowledge,
) -> None:
    """Take the acknowledgements of one partition; the outcome is told to the request that waits for it."""
    try:
        groups.windows.partition(share_partition)
        checked = check_batches(batches, renew_supported=request.api_version >= _RENEWAL, is_renew_acknowledge=is_renew)
        rights.check_topic(share_partition[0])
        live = groups.windows.find(session.group_id, share_partition)
        if live is None:
            raise UnknownTopicOrPartition("The share-partition is not in use on this broker.")
    except KafkaError as error:
        waits.acknowledged(share_partition, error)
        return
    live.acknowledge(session.member_id, checked, lambda outcome: waits.acknowledged(share_partition, outcome))


def _check_renewal(body: m.ShareFetchRequest) -> None:
    if body.is_renew_ack and (body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms):
        raise InvalidRequest("A request that renews locks must not ask for records.")


def _fetch_error(error: KafkaError) -> m.ShareFetchResponse:
    return m.ShareFetchResponse(error_code=error.code, error_message=error.message)
