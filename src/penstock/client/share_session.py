"""A share session: what one broker knows about this member (KIP-932).

The session holds the partitions to fetch from, so that each request names only what changed. Requests of a session
carry a rising epoch, fetches and acknowledgements alike, so there is never more than one under way. Epoch 0 opens a
session, -1 closes it and releases what is still locked. When the broker has lost the session, or the connection is
lost, the next request opens a new one. Unanswered acknowledgements then count as failed, and their records will be
delivered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.client.cluster import Cluster
from penstock.client.config import ShareConsumerConfig
from penstock.client.errors import Disconnected, check, kafka_error
from penstock.client.fetch_session import LAST_EPOCH
from penstock.client.share_acknowledgements import Acknowledgements, AcknowledgeType, runs_of
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, InvalidRecordState, KafkaError

TopicIdPartition = tuple[bytes, int]
Runs = list[tuple[int, int]]  # first and last offset
Report = Callable[[TopicIdPartition, Acknowledgements, KafkaError | None], None]

_OPENING, _CLOSING = 0, -1
_GONE = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}
_ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}


@dataclass(slots=True)
class SharePartition:
    """What a fetch brought for one partition."""

    partition: TopicIdPartition
    records: memoryview
    acquired: list[tuple[int, int, int]]  # first offset, last offset, delivery count
    error_code: int
    error_message: str | None
    locked_at: float = 0.0  # by the loop's clock; the time of the answer, so a little late

    def locked_runs(self) -> Runs:
        return [(first, last) for first, last, _ in self.acquired]


class ShareSession:
    def __init__(
        self, cluster: Cluster, config: ShareConsumerConfig, node: int, member_id: str, report: Report
    ) -> None:
        self.node = node
        self.lock_timeout_ms = 30_000
        self._cluster = cluster
        self._config = config
        self._member_id = member_id
        self._report = report
        self._epoch = _OPENING
        self._known: set[TopicIdPartition] = set()
        self._acks: dict[TopicIdPartition, Acknowledgements] = {}
        self._turn = asyncio.Lock()

    # Acknowledgements

    def acknowledgements(self, partition: TopicIdPartition) -> Acknowledgements:
        """Those of a partition that the next request will carry."""
        found = self._acks.get(partition)
        if found is None:
            found = self._acks[partition] = Acknowledgements()
        return found

    @property
    def has_acknowledgements(self) -> bool:
        return any(self._acks.values())

    def held(self) -> Iterator[tuple[TopicIdPartition, Runs]]:
        """What is locked for the program: undecided, or decided without the broker knowing of it yet."""
        now = asyncio.get_running_loop().time()
        for partition, ack in self._acks.items():
            offsets = ack.offsets() - ack.run_out(now)
            if offsets:
                yield partition, runs_of(sorted(offsets))

    def _take_acks(self) -> dict[TopicIdPartition, Acknowledgements]:
        acks: dict[TopicIdPartition, Acknowledgements] = {}
        now = asyncio.get_running_loop().time()
        for partition, ack in self._acks.items():
            if not ack:
                continue
            run_out = ack.run_out(now)
            taken = ack.take()
            late = taken.split_off(run_out) if run_out else None
            if late:
                self._report(partition, late, InvalidRecordState("their locks expired before they were acknowledged"))
            if taken:
                acks[partition] = taken
        if acks and self._epoch == _OPENING:
            self._fail(acks, Disconnected("the share session was lost; the records will be delivered again"))
            return {}
        return acks

    def _fail(self, acks: dict[TopicIdPartition, Acknowledgements], error: KafkaError) -> None:
        for partition, ack in acks.items():
            self._report(partition, ack, error)

    # Requests

    async def fetch(self, assigned: set[TopicIdPartition], max_records: int, max_wait_ms: int) -> list[SharePartition]:
        """Fetch from `wanted`, sending acknowledgements along."""
        async with self._turn:
            acks = self._take_acks()
            forgotten = (self._known | set(acks)) - assigned
            config = self._config
            record_limit = config.share_acquire_mode == "record_limit"
            request = m.ShareFetchRequest(
                group_id=config.group_id,
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                max_records=max_records,
                batch_size=max_records,
                share_acquire_mode=_ACQUIRE_MODES[config.share_acquire_mode],
                topics=_fetch_topics((assigned - self._known) | set(acks), acks),
                forgotten_topics_data=[
                    m.ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in _by_topic(forgotten).items()
                ],
            )
            try:
                answer = await self._cluster.request(
                    request,
                    m.ShareFetchResponse,
                    node=self.node,
                    channel="share",
                    timeout_ms=config.request_timeout_ms + max_wait_ms,
                    at_least=2 if record_limit else 1,
                )
            except KafkaError as error:
                self._lost(acks, error)
                raise
            self._answered(answer.error_code, answer.error_message, acks)
            self._known = (self._known | assigned) - forgotten
            self.lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.lock_timeout_ms
            return self._read(answer, acks)

    def _read(
        self, answer: m.ShareFetchResponse, acks: dict[TopicIdPartition, Acknowledgements]
    ) -> list[SharePartition]:
        found: list[SharePartition] = []
        unanswered = dict(acks)
        now = asyncio.get_running_loop().time()
        for topic in answer.responses:
            for p in topic.partitions:
                key = (topic.topic_id, p.partition_index)
                ack = unanswered.pop(key, None)
                if ack is not None:
                    self._report(key, ack, _error(p.acknowledge_error_code, p.acknowledge_error_message))
                data = p.records
                found.append(
                    SharePartition(
                        key,
                        data if isinstance(data, memoryview) else memoryview(b""),
                        [(a.first_offset, a.last_offset, a.delivery_count) for a in p.acquired_records],
                        p.error_code,
                        p.error_message,
                        now,
                    )
                )
        if unanswered:
            self._fail(unanswered, kafka_error(ErrorCode.INVALID_RECORD_STATE))
        return found

    async def acknowledge(self, *, close: bool = False) -> None:
        """Send the acknowledgements that wait, if any; `close` ends the session and releases what is locked."""
        async with self._turn:
            acks = self._take_acks()
            if self._epoch == _OPENING or (not acks and not close):
                return
            if close:
                self._epoch = _CLOSING
            await self._send_acks(acks)

    async def renew(
        self, choose: Callable[[], dict[TopicIdPartition, Runs]]
    ) -> dict[TopicIdPartition, KafkaError | None]:
        """Extend the locks of records that are still being worked on (KIP-1222); returns per partition what went wrong.

        `choose` is asked when it is our turn, as a record may be decided, and the decision sent, before that.
        """
        async with self._turn:
            acks: dict[TopicIdPartition, Acknowledgements] = {}
            for partition, runs in choose().items():
                chosen = acks[partition] = Acknowledgements()
                for first, last in runs:
                    chosen.add_run(first, last, AcknowledgeType.RENEW)
            if not acks:
                return {}
            if self._epoch == _OPENING:
                raise Disconnected("the share session was lost; the records will be delivered again")
            outcome: dict[TopicIdPartition, KafkaError | None] = {}
            await self._send_acks(acks, renewals=outcome)
            # Not the time of the request: a lock that seems to end too soon would cost an acknowledgement.
            until = asyncio.get_running_loop().time() + self.lock_timeout_ms / 1000
            for partition, renewed in acks.items():
                if outcome.setdefault(partition, kafka_error(ErrorCode.INVALID_RECORD_STATE)) is None:
                    for first, last, _ in renewed.batches():
                        self.acknowledgements(partition).locked(first, last, until)
            return outcome

    async def _send_acks(
        self,
        acks: dict[TopicIdPartition, Acknowledgements],
        renewals: dict[TopicIdPartition, KafkaError | None] | None = None,
    ) -> None:
        """The answers are reported, those to renewals put into `renewals`."""
        renew = renewals is not None
        request = m.ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            is_renew_ack=renew,
            topics=_acknowledge_topics(acks),
        )
        decisions = {} if renew else acks
        try:
            answer = await self._cluster.request(
                request, m.ShareAcknowledgeResponse, node=self.node, channel="share", at_least=2 if renew else 1
            )
        except KafkaError as error:
            self._lost(decisions, error)
            raise
        self._answered(answer.error_code, answer.error_message, decisions)
        if answer.acquisition_lock_timeout_ms:
            self.lock_timeout_ms = answer.acquisition_lock_timeout_ms
        unanswered = dict(decisions)
        for topic in answer.responses:
            for p in topic.partitions:
                key = (topic.topic_id, p.partition_index)
                refusal = _error(p.error_code, p.error_message)
                if renewals is not None:
                    renewals[key] = refusal
                elif (ack := unanswered.pop(key, None)) is not None:
                    self._report(key, ack, refusal)
        self._fail(unanswered, kafka_error(ErrorCode.INVALID_RECORD_STATE))

    def _answered(self, code: int, message: str | None, acks: dict[TopicIdPartition, Acknowledgements]) -> None:
        """Move the epoch on; raise what is wrong with the whole request."""
        if code in _GONE:
            error = kafka_error(code, message)
            self._lost(acks, error)
            raise error
        if self._epoch == _CLOSING:
            self._epoch = _OPENING
            self._known.clear()
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        if code:
            self._fail(acks, kafka_error(code, message))
            check(code, message)

    def _lost(self, acks: dict[TopicIdPartition, Acknowledgements], error: KafkaError) -> None:
        self._epoch = _OPENING
        self._known.clear()
        self._fail(acks, error)


def _error(code: int, message: str | None) -> KafkaError | None:
    return kafka_error(code, message) if code else None


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return topics


def _fetch_topics(
    partitions: set[TopicIdPartition], acks: dict[TopicIdPartition, Acknowledgements]
) -> list[m.ShareFetchRequest.FetchTopic]:
    batch = m.ShareFetchRequest.AcknowledgementBatch
    return [
        m.ShareFetchRequest.FetchTopic(
            topic_id=topic_id,
            partitions=[
                m.ShareFetchRequest.FetchPartition(
                    partition_index=number,
                    acknowledgement_batches=[
                        batch(*ack) for ack in (acks[topic_id, number].batches() if (topic_id, number) in acks else ())
                    ],
                )
                for number in numbers
            ],
        )
        for topic_id, numbers in _by_topic(partitions).items()
    ]


def _acknowledge_topics(
    acks: dict[TopicIdPartition, Acknowledgements],
) -> list[m.ShareAcknowledgeRequest.AcknowledgeTopic]:
    batch = m.ShareAcknowledgeRequest.AcknowledgementBatch
    return [
        m.ShareAcknowledgeRequest.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                m.ShareAcknowledgeRequest.AcknowledgePartition(
                    partition_index=number,
                    acknowledgement_batches=[batch(*ack) for ack in acks[topic_id, number].batches()],
                )
                for number in numbers
            ],
        )
        for topic_id, numbers in _by_topic(acks).items()
    ]
