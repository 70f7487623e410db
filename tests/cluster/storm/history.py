"""The history of a storm, in the format of `penstock.checks`: what real clients sent, were answered, and saw.

Sends and polls are recorded by the programs of the load. What share groups and consumer groups do is taken from the
wire: each `Connection` of `penstock.client` is watched, so that a delivery counts from the moment at which it arrives
and not when a program gets to it. Each delivery and acknowledgement names the broker that it came from, and when it was
requested; `leadership` finds out which window of which leader that was.

Answers of two brokers may overtake each other on their way: an offset commit that was under way when a higher one was
confirmed is counted (`overlaps`), not judged.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.checks import Finding, check
from penstock.checks.history import Operation, checked
from penstock.client.connection import Connection
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.cluster.storm.leadership import Led, Loaded, Place, judged

_GAP, _RELEASE, _RENEW = 0, 2, 4
_KINDS = {1: "accept", _RELEASE: "release", 3: "reject", _RENEW: "renew"}
_REFUSED = {
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.INVALID_REQUEST,
}
_NO_SESSION = {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
_CLOSING_MS = 1_000
"""How much earlier than a client a broker may notice that their connection is over."""


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class History:
    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.overlaps: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.topics: dict[bytes, str] = {}
        self._committed: dict[tuple[str, Place], list[tuple[int, int]]] = {}
        """Offsets that were confirmed for a group, with the time."""

    def add(self, op: str, **fields: object) -> None:
        self.operations.append({"op": op, **fields})
        self.counts[op] += 1

    def judge(self, led: Sequence[Led] = (), loaded: Sequence[Loaded] = (), lock_ms: int = 0) -> list[Finding]:
        """What it shows and should not. `operations` are in the order afterwards in which they were judged."""
        result = judged(self.operations, led, loaded, lock_ms)
        self.operations = result.operations
        self.overlaps += result.overlaps
        return [*result.findings, *check(checked(each, line) for line, each in enumerate(self.operations, 1))]

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(each) + "\n" for each in self.operations))

    # -- queues ----------------------------------------------------------------------------------------------------

    def deliver(
        self, group: str, member: str, place: Place, offset: int, count: int, *, node: int, sent_ms: int
    ) -> None:
        self.add(
            "deliver",
            group=group,
            member=member,
            topic=place[0],
            partition=place[1],
            offset=offset,
            count=count,
            node=node,
            sent=sent_ms,
            time=now_ms(),
        )

    def acknowledge(
        self, group: str, member: str, place: Place, offset: int, kind: int, result: str, *, node: int, sent_ms: int
    ) -> None:
        self.add(
            "acknowledge",
            group=group,
            member=member,
            topic=place[0],
            partition=place[1],
            offset=offset,
            kind=_KINDS[kind],
            result=result,
            node=node,
            sent=sent_ms,
            time=now_ms(),
        )

    def session_over(self, member: str, node: int, since_ms: int) -> None:
        """What the member was given until now is free, since this moment at the earliest."""
        self.add("session-over", member=member, node=node, since=since_ms, time=now_ms())

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
    """Watches every connection of `penstock.client` in this process while it is entered.

    `nodes` says which broker is behind which port.
    """

    def __init__(self, history: History, nodes: Mapping[int, int]) -> None:
        self._history = history
        self._nodes = nodes
        self._members: dict[Connection, set[str]] = {}
        """Who fetches from share groups over a connection."""
        self._answered_at: dict[tuple[str, int], int] = {}
        """When each member was answered by each broker last as somebody who has a session there."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        send, lost = Connection._send, Connection.connection_lost

        def sent(connection: Connection, message: m.Message, *arguments: Any) -> asyncio.Future[m.Message]:
            asked_at = now_ms()
            future = send(connection, message, *arguments)
            # Done callbacks run in the order in which they were added: before the program goes on.
            if isinstance(message, m.OffsetCommitRequest):
                future.add_done_callback(lambda done: self._committed(message, _answer(done), asked_at))
            elif isinstance(message, m.ShareFetchRequest | m.ShareAcknowledgeRequest):
                node = self._node(connection)
                self._members.setdefault(connection, set()).add(str(message.member_id))
                if message.share_session_epoch <= 0:
                    self._history.session_over(str(message.member_id), node, asked_at)
                future.add_done_callback(lambda done: self._shared(message, _answer(done), node, asked_at))
            return future

        def over(connection: Connection, error: Exception | None) -> None:
            for member in self._members.pop(connection, ()):
                self._history.session_over(member, self._node(connection), now_ms() - _CLOSING_MS)
            lost(connection, error)

        Connection._send, Connection.connection_lost = sent, over  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            Connection._send, Connection.connection_lost = send, lost  # type: ignore[method-assign]

    def _node(self, connection: Connection) -> int:
        return self._nodes[int(connection.address.rpartition(":")[2])]

    # -- queues ----------------------------------------------------------------------------------------------------

    def _shared(
        self,
        request: m.ShareFetchRequest | m.ShareAcknowledgeRequest,
        answer: m.Message | None,
        node: int,
        sent_ms: int,
    ) -> None:
        member = str(request.member_id)
        code = ErrorCode.NETWORK_EXCEPTION.value
        errors: dict[Place, int] = {}
        if isinstance(answer, m.ShareFetchResponse):
            code = answer.error_code
            errors = {
                (self._name(topic.topic_id), each.partition_index): each.acknowledge_error_code
                for topic in answer.responses
                for each in topic.partitions
            }
        elif isinstance(answer, m.ShareAcknowledgeResponse):
            code = answer.error_code
            errors = {
                (self._name(topic.topic_id), each.partition_index): each.error_code
                for topic in answer.responses
                for each in topic.partitions
            }
        if code in _NO_SESSION:
            self._history.session_over(member, node, self._answered_at.get((member, node), 0))
        elif code == 0:
            self._answered_at[member, node] = now_ms()
        self._acknowledged(request, code, errors, node, sent_ms)
        if isinstance(answer, m.ShareFetchResponse):
            self._deliver(request, answer, node, sent_ms)
        elif isinstance(request, m.ShareFetchRequest):
            # It may have been given records that nobody saw.
            self._history.add(
                "lost-fetch", group=request.group_id, member=member, node=node, sent=sent_ms, time=now_ms()
            )

    def _deliver(
        self,
        request: m.ShareFetchRequest | m.ShareAcknowledgeRequest,
        answer: m.ShareFetchResponse,
        node: int,
        sent_ms: int,
    ) -> None:
        group, member = str(request.group_id), str(request.member_id)
        for topic in answer.responses:
            for each in topic.partitions:
                place = (self._name(topic.topic_id), each.partition_index)
                for run in each.acquired_records:
                    for offset in range(run.first_offset, run.last_offset + 1):
                        self._history.deliver(
                            group, member, place, offset, run.delivery_count, node=node, sent_ms=sent_ms
                        )

    def _acknowledged(
        self,
        request: m.ShareFetchRequest | m.ShareAcknowledgeRequest,
        code: int,
        errors: dict[Place, int],
        node: int,
        sent_ms: int,
    ) -> None:
        group, member = str(request.group_id), str(request.member_id)
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
                                group, member, place, offset, kind, result, node=node, sent_ms=sent_ms
                            )

    # -- groups ----------------------------------------------------------------------------------------------------

    def _committed(self, request: m.OffsetCommitRequest, answer: m.Message | None, sent_ms: int) -> None:
        if not isinstance(answer, m.OffsetCommitResponse):
            return
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


def _answer(future: asyncio.Future[m.Message]) -> m.Message | None:
    return None if future.cancelled() or future.exception() is not None else future.result()
