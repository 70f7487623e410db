"""One ShareFetch on its way: its acknowledgements, its wait for records, and its one answer.

The answer goes out when both sides are done: every acknowledgement that came with the request is as durable as
configured, and records were acquired, or the time is up. Records are prepared from the session's partitions in turn,
counted against MinBytes and the quota of the client, and only then acquired, so that a fetch which goes on waiting or
is throttled holds nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.broker.requests import Pending, Request
from penstock.broker.share.live import LiveSharePartition, Prepared
from penstock.queues.assembly import split_entries
from penstock.queues.sessions import FINAL_EPOCH, ShareSession, TopicIdPartition
from penstock.records.batch import CorruptBatch
from penstock.storage.contract import StorageError
from penstock.wire import messages as m
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    TopicAuthorizationFailed,
    UnknownServerError,
)

if TYPE_CHECKING:
    from penstock.broker.quotas import Quotas
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.share.rights import ReadRights
    from penstock.broker.traffic import Traffic
    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.share")

_BATCH_OPTIMIZED = 0
NO_LEADER = -1
"""Sent with NOT_LEADER_OR_FOLLOWER: the client is to ask for metadata. Otherwise the field is zero, as in Kafka."""
_LOOK_AGAIN_SECONDS = 0.05

PartitionData = m.ShareFetchResponse.PartitionData


class ShareFetch:
    def __init__(
        self,
        groups: ShareGroups,
        world: World,
        quotas: Quotas,
        traffic: Traffic | None,
        request: Request[m.ShareFetchRequest],
        session: ShareSession,
        rights: ReadRights,
        wants_records: bool,
    ) -> None:
        self.session = session
        self._rights = rights
        self.pending: Pending = request.defer()
        self._windows = groups.windows
        self._sessions = groups.sessions
        self._settings = groups.settings
        self._metrics = groups.metrics
        self._world = world
        self._quotas = quotas
        self._traffic = traffic
        self._request = request
        self._body = body = request.body
        self._max_bytes = min(body.max_bytes, groups.config.fetch_max_bytes)
        self._min_bytes = body.min_bytes
        if quotas.limits_fetches and (allowed := quotas.fetch_budget(request)) < self._max_bytes:
            self._max_bytes = allowed
            if allowed < body.min_bytes:
                self._min_bytes = 1
        self._throttle_time_ms = 0
        self._found: dict[TopicIdPartition, PartitionData] = {}
        self._acknowledged: dict[TopicIdPartition, KafkaError | None] = {}
        self._acknowledgements_under_way = 0
        self._is_fetched = not wants_records
        self._is_refused = False
        self._is_started = False
        self._timer: Timer | None = None
        self._waits_at: list[LiveSharePartition] = []
        self._not_loaded: list[TopicIdPartition] = []

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def expect_acknowledgement(self, partition: TopicIdPartition) -> None:
        self._acknowledged[partition] = None
        self._acknowledgements_under_way += 1

    def acknowledged(self, partition: TopicIdPartition, error: KafkaError | None) -> None:
        self._acknowledged[partition] = error
        self._acknowledgements_under_way -= 1
        self._maybe_answer()

    # -- records ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Serve at once, or wait."""
        if not self._is_fetched:
            self._look_up_partitions()
            if not self.try_serve():
                self._wait()
        self._is_started = True
        self._maybe_answer()

    def try_serve(self) -> bool:
        """Acquire records if there are as many as the fetch waits for. True when the fetch is done."""
        if self._is_fetched:
            return True
        if not self.pending.is_open:
            self._finish_fetching()
            return True
        prepared = self._prepare()
        size = _size(prepared)
        if not prepared or (size < self._min_bytes and not self._is_full(prepared)):
            return False
        self._acquire(prepared)
        self._finish_fetching()
        return True

    def give_up(self) -> None:
        """The time is up, or the session has gone: answer with what there is."""
        if not self._is_fetched:
            if self._sessions.is_open(self.session):
                self._acquire(self._prepare())
            self._finish_fetching()
            self._maybe_answer()

    def partition_lost(self, partition: TopicIdPartition, error: KafkaError) -> None:
        """A topic was deleted, or its offsets were reset, while the fetch waited."""
        if not self._is_fetched:
            self._fail(partition, error)
            self._finish_fetching()
            self._maybe_answer()

    def check_rights(self) -> None:
        """Rules have changed while the fetch waited: acquire nothing that may not be read any more."""
        if self._is_fetched:
            return
        if not self._rights.may_use_group():
            self._is_refused = True
            self._finish_fetching()
            self._maybe_answer()
            return
        for partition in self.session.in_fetch_order():
            try:
                self._rights.check_topic(partition[0])
            except TopicAuthorizationFailed as error:
                self.partition_lost(partition, error)

    def _open(self, partition: TopicIdPartition) -> LiveSharePartition:
        self._rights.check_topic(partition[0])
        return self._windows.open(self.session.group_id, partition)

    def _look_up_partitions(self) -> None:
        for partition in self.session.in_fetch_order():
            try:
                live = self._open(partition)
            except CoordinatorLoadInProgress:
                self._not_loaded.append(partition)
            except Exception as error:
                self._fail(partition, _error_for_client(partition, error))
            else:
                self._waits_at.append(live)

    def _look_again(self) -> None:
        """The share coordinator was still loading when the fetch came; no client knows what to do with that error."""
        if self._is_fetched:
            return
        missing, self._not_loaded = self._not_loaded, []
        for partition in missing:
            try:
                live = self._open(partition)
            except CoordinatorLoadInProgress:
                self._not_loaded.append(partition)
            except Exception as error:
                self.partition_lost(partition, _error_for_client(partition, error))
                return
            else:
                self._waits_at.append(live)
                live.park(self)
        if not self.try_serve() and self._not_loaded:
            self._world.call_later(_LOOK_AGAIN_SECONDS, self._look_again)

    def _prepare(self) -> list[tuple[TopicIdPartition, Prepared]]:
        records, size = self._body.max_records, self._max_bytes
        prepared: list[tuple[TopicIdPartition, Prepared]] = []
        for live in list(self._waits_at):
            if records <= 0 or (size <= 0 and prepared):
                break
            try:
                choice = live.prepare(self, records, size)
            except Exception as error:
                self._leave_out(live, error)
                continue
            if choice is not None:
                prepared.append(((live.key[1], live.key[2]), choice))
                records -= sum(chosen.last_offset - chosen.first_offset + 1 for chosen in choice.assembled.ranges)
                size -= choice.assembled.size
        return prepared

    def _leave_out(self, live: LiveSharePartition, error: Exception) -> None:
        """A partition that fails costs its own records only: the answer names its error, whenever it goes out."""
        partition = (live.key[1], live.key[2])
        self._fail(partition, _error_for_client(partition, error))
        self._waits_at.remove(live)
        live.waiting.leave(self)

    def _is_full(self, prepared: list[tuple[TopicIdPartition, Prepared]]) -> bool:
        number = sum(last - first + 1 for _, choice in prepared for first, last, _ in choice.assembled.ranges)
        return number >= self._body.max_records

    def _acquire(self, prepared: list[tuple[TopicIdPartition, Prepared]]) -> None:
        if self._quotas.limits_fetches:
            self._throttle_time_ms = self._quotas.fetched(self._request, _size(prepared))
            if self._throttle_time_ms:
                return  # before anything is acquired: a record that is locked and not sent would be lost for a while
        entry = m.ShareFetchResponse.AcquiredRecords
        for partition, choice in prepared:
            taken = choice.live.take(choice, self.session.member_id)
            if self._body.share_acquire_mode == _BATCH_OPTIMIZED:
                taken = split_entries(taken, self._body.batch_size)
            data = self._data(partition)
            parts = choice.assembled.parts
            # Anything but bytes goes to the socket as it is, without another copy.
            data.records = parts[0] if len(parts) == 1 else bytearray().join(parts)
            if self._traffic is not None:
                self._traffic.fetched[partition[0]] += choice.assembled.size
            data.acquired_records = [
                entry(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in taken
            ]

    def _wait(self) -> None:
        if self._body.max_wait_ms <= 0 or not (self._waits_at or self._not_loaded):
            self._finish_fetching()
            return
        for live in self._waits_at:
            live.park(self)
        self._sessions.parked[self.session] = self
        self._timer = self._world.call_later(self._body.max_wait_ms / 1000, self._time_is_up)
        if self._not_loaded:
            self._world.call_later(_LOOK_AGAIN_SECONDS, self._look_again)

    def _time_is_up(self) -> None:
        self._metrics.expired_waits += 1
        self.give_up()

    def _finish_fetching(self) -> None:
        self._is_fetched = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._sessions.parked.pop(self.session, None)
            for live in self._waits_at:
                live.waiting.leave(self)
        if self._is_started:
            self._maybe_answer()

    # -- the answer ------------------------------------------------------------------------------------------------

    def _data(self, partition: TopicIdPartition) -> PartitionData:
        data = self._found.get(partition)
        if data is None:
            data = self._found[partition] = PartitionData(partition_index=partition[1], records=b"")
        return data

    def _fail(self, partition: TopicIdPartition, error: KafkaError) -> None:
        data = self._data(partition)
        data.error_code = error.code
        data.error_message = explanation(error)
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            data.current_leader = m.ShareFetchResponse.LeaderIdAndEpoch(leader_id=NO_LEADER, leader_epoch=NO_LEADER)

    def _maybe_answer(self) -> None:
        if not (self._is_started and self._is_fetched and self._acknowledgements_under_way == 0):
            return
        if self.pending.done:
            return
        if self._is_refused:
            self.pending.complete(m.ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        for partition, error in self._acknowledged.items():
            data = self._data(partition)
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = explanation(error)
        settings = self._settings.settings(self.session.group_id)
        response = m.ShareFetchResponse(
            throttle_time_ms=self._throttle_time_ms,
            acquisition_lock_timeout_ms=settings.record_lock_duration_ms,
            responses=self._responses(),
        )
        self.pending.complete(response)

    def _responses(self) -> list[m.ShareFetchResponse.ShareFetchableTopicResponse]:
        """Partitions with news, and all that were acknowledged; after an opening request, all of the session."""
        topics: dict[bytes, m.ShareFetchResponse.ShareFetchableTopicResponse] = {}
        partitions = [*self._found]
        if self._body.share_session_epoch != FINAL_EPOCH:
            partitions = [*self.session.partitions, *(p for p in self._found if p not in self.session.partitions)]
        for partition in partitions:
            found = self._found.get(partition)
            has_news = self.session.answered(
                partition,
                has_records=found is not None and bool(found.records),
                has_error=found is not None and found.error_code != ErrorCode.NONE,
            )
            if has_news or partition in self._acknowledged:
                topic = topics.get(partition[0])
                if topic is None:
                    topic = topics[partition[0]] = m.ShareFetchResponse.ShareFetchableTopicResponse(
                        topic_id=partition[0]
                    )
                topic.partitions.append(self._data(partition))
        return list(topics.values())


def explanation(error: KafkaError) -> str | None:
    """Kafka lets the code of what may not be read speak for itself."""
    return None if isinstance(error, TopicAuthorizationFailed) else error.message


def _size(prepared: list[tuple[TopicIdPartition, Prepared]]) -> int:
    return sum(choice.assembled.size for _, choice in prepared)


def _error_for_client(partition: TopicIdPartition, error: Exception) -> KafkaError:
    """What a client is told of a partition that failed; what nobody foresaw is explained in the broker's log."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, StorageError | OSError | CorruptBatch):
        log.error("partition %d of topic %s failed in a share fetch: %s", partition[1], partition[0].hex(), error)
        return KafkaStorageError()
    log.error("partition %d of topic %s failed in a share fetch", partition[1], partition[0].hex(), exc_info=error)
    return UnknownServerError()
