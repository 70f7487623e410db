"""The history of a storm, in the format of `penstock.checks`: what real clients sent, were answered, and saw.

Sends and polls are recorded by the programs of the load. What share groups and consumer groups do is taken from the
wire: each `Connection` of `penstock.client` is watched, so that a delivery counts from the moment at which it arrives
and not when a program gets to it.

Answers of two brokers may overtake each other on their way. What a client was told *after* it had asked is only a fault
if it had asked after the opposite was confirmed: a delivery whose request was under way when the record was accepted,
and an offset commit that was under way when a higher one was confirmed, are counted (`overlaps`), not judged.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.checks import Finding, check
from penstock.checks.history import Operation, checked
from penstock.client.connection import Connection
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_GAP, _RELEASE, _RENEW = 0, 2, 4
_KINDS = {1: "accept", _RELEASE: "release", 3: "reject", _RENEW: "renew"}
_REFUSED = {
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.INVALID_REQUEST,
}

Place = tuple[str, int]


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class History:
    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.overlaps: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.topics: dict[bytes, str] = {}
        self._counts: dict[tuple[str, Place, int], int] = {}
        self._ended: dict[tuple[str, Place, int], int] = {}
        self._committed: dict[tuple[str, Place], list[tuple[int, int]]] = {}
        """Offsets that were confirmed for a group, with the time."""

    def add(self, op: str, **fields: object) -> None:
        self.operations.append({"op": op, **fields})
        self.counts[op] += 1

    def judge(self) -> list[Finding]:
        return check(checked(operation, line) for line, operation in enumerate(self.operations, 1))

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(each) + "\n" for each in self.operations))

    def took_over(self, kind: str) -> None:
        """Leaders may change: who holds what may be forgotten, and counts may come again."""
        self.add("fault", kind="kill", time=now_ms(), what=kind)

    # -- queues ----------------------------------------------------------------------------------------------------

    def deliver(self, group: str, member: str, place: Place, offset: int, count: int, sent_ms: int) -> None:
        if self._ended.get((group, place, offset), -1) >= sent_ms:
            self.overlaps["delivery of what was being accepted"] += 1
            return
        if count <= self._counts.get((group, place, offset), 0):
            # Counts hold per leader epoch, and leaders also move to be spread evenly, which no client hears of.
            self.overlaps["delivery count that came again"] += 1
            self.took_over("another leader")
        self._counts[group, place, offset] = count
        # Nobody claims to hold it: after a take-over, at a time that no client knows, others may get it too.
        self.add(
            "deliver",
            group=group,
            member=member,
            topic=place[0],
            partition=place[1],
            offset=offset,
            count=count,
            time=now_ms(),
            until=now_ms(),
        )

    def acknowledge(self, group: str, member: str, place: Place, offset: int, kind: int, result: str) -> None:
        if result == "ok" and kind in (1, 3):
            self._ended.setdefault((group, place, offset), now_ms())
        self.add(
            "acknowledge",
            group=group,
            member=member,
            topic=place[0],
            partition=place[1],
            offset=offset,
            kind=_KINDS[kind],
            result=result,
            time=now_ms(),
        )

    # -- groups ----------------------------------------------------------------------------------------------------

    def committed(self, group: str, place: Place, offset: int, sent_ms: int, *, is_read: bool = False) -> None:
        """A commit that was confirmed, or a committed offset as it was read."""
        confirmed = self._committed.setdefault((group, place), [])
        highest = max((each for each, at in confirmed if at < sent_ms), default=0)
        overlapping = max((each for each, at in confirmed if at >= sent_ms), default=0)
        if highest <= offset < overlapping:
            self.overlaps["commit"] += 1
            return
        confirmed.append((offset, now_ms()))
        del confirmed[:-200]
        self.add(
            "offset-commit",
            group=group,
            topic=place[0],
            partition=place[1],
            offset=offset,
            result="ok",
            read=is_read,
        )


class Wire:
    """Watches every connection of `penstock.client` in this process while it is entered."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._requests: dict[asyncio.Future[m.Message], tuple[m.Message, int]] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        send = Connection._send

        def sent(connection: Connection, message: m.Message, *arguments: Any) -> asyncio.Future[m.Message]:
            future = send(connection, message, *arguments)
            if isinstance(message, m.ShareFetchRequest | m.ShareAcknowledgeRequest | m.OffsetCommitRequest):
                asked = (message, now_ms())
                # Done callbacks run in the order in which they were added: before the program goes on.
                future.add_done_callback(lambda done: self._answered(asked, done))
            return future

        Connection._send = sent  # type: ignore[method-assign]
        try:
            yield
        finally:
            Connection._send = send  # type: ignore[method-assign]

    def _answered(self, asked: tuple[m.Message, int], future: asyncio.Future[m.Message]) -> None:
        request, sent_ms = asked
        answer = None if future.cancelled() or future.exception() is not None else future.result()
        if isinstance(request, m.OffsetCommitRequest):
            if isinstance(answer, m.OffsetCommitResponse):
                self._offsets(request, answer, sent_ms)
        elif isinstance(request, m.ShareFetchRequest):
            self._share_fetch(request, answer, sent_ms)
        elif isinstance(request, m.ShareAcknowledgeRequest):
            errors: dict[Place, int] = {}
            code = ErrorCode.NETWORK_EXCEPTION.value
            if isinstance(answer, m.ShareAcknowledgeResponse):
                code = answer.error_code
                errors = {
                    (self._name(topic.topic_id), each.partition_index): each.error_code
                    for topic in answer.responses
                    for each in topic.partitions
                }
            self._acknowledged(request, code, errors)

    def _share_fetch(self, request: m.ShareFetchRequest, answer: m.Message | None, sent_ms: int) -> None:
        if not isinstance(answer, m.ShareFetchResponse):
            self._acknowledged(request, ErrorCode.NETWORK_EXCEPTION, {})
            # It may have been given records that nobody saw.
            self._history.add("gone", group=request.group_id, member=request.member_id, time=now_ms(), fetching=True)
            return
        errors = {
            (self._name(topic.topic_id), each.partition_index): each.acknowledge_error_code
            for topic in answer.responses
            for each in topic.partitions
        }
        self._acknowledged(request, answer.error_code, errors)
        for topic in answer.responses:
            for each in topic.partitions:
                place = (self._name(topic.topic_id), each.partition_index)
                for run in each.acquired_records:
                    for offset in range(run.first_offset, run.last_offset + 1):
                        self._history.deliver(
                            str(request.group_id), str(request.member_id), place, offset, run.delivery_count, sent_ms
                        )

    def _acknowledged(
        self, request: m.ShareFetchRequest | m.ShareAcknowledgeRequest, code: int, errors: dict[Place, int]
    ) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                place = (self._name(topic.topic_id), partition.partition_index)
                error = code or errors.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
                result = "ok" if error == 0 else "failed" if error in _REFUSED else "unknown"
                for batch in partition.acknowledgement_batches:
                    kinds = batch.acknowledge_types
                    for index, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                        kind = kinds[0] if len(kinds) == 1 else kinds[index]
                        if kind not in (_GAP, _RENEW):
                            self._history.acknowledge(
                                str(request.group_id), str(request.member_id), place, offset, kind, result
                            )

    def _offsets(self, request: m.OffsetCommitRequest, answer: m.OffsetCommitResponse, sent_ms: int) -> None:
        refused = {
            (self._name(topic.topic_id, topic.name), each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code
        }
        for topic in request.topics:
            name = self._name(topic.topic_id, topic.name)
            for each in topic.partitions:
                if (name, each.partition_index) not in refused:
                    self._history.committed(
                        request.group_id, (name, each.partition_index), each.committed_offset, sent_ms
                    )

    def _name(self, topic_id: bytes, name: str = "") -> str:
        return self._history.topics.get(topic_id, name)
