"""The history of share groups as it is seen at the broker's door: who was given which records, and what became of them.

A lock begins when the broker acquires a record, at the earliest when the request for it was sent: until then plus the
duration of a lock nobody else may have it. A member is known by its connection, as its session is: whoever reconnects
begins anew. Acknowledgements of records below the start offset are confirmed and ignored, as Kafka does: they are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.simulation.door import Door, Exchange
from penstock.simulation.network import Connection
from penstock.simulation.node import Node
from penstock.simulation.world import SimulatedWorld
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.simulation.scenario import History

LISTENED = (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
"""What a door is to listen for."""

_ROUNDED_MS = 1
_GAP, _RELEASE, _RENEW = 0, 2, 4
_KINDS = {_GAP: "reject", 1: "accept", _RELEASE: "release", 3: "reject", _RENEW: "renew"}
"""An offset without a record, as the end of a transaction is, is over when a client has said so."""
_CERTAINLY_NOT = {
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.INVALID_REQUEST,
}

ShareRequest = m.ShareFetchRequest | m.ShareAcknowledgeRequest


class QueueHistory:
    passes_over_unheld = True
    """A broker that stops gives out what it takes back at once, in an order of its own: it is not certain that anybody
    has been delivered it."""

    def __init__(
        self,
        history: History,
        door: Door,
        world: SimulatedWorld,
        topics: dict[bytes, str],
        start_offset: Callable[[Node, str, bytes, int], int],
        lock_ms: int,
        backoff: int,
    ) -> None:
        self._history = history
        self._world = world
        self._topics = topics
        self._start_offset = start_offset
        self._lock_ms = lock_ms
        self._backoff_ms = backoff
        self._members: dict[Connection, dict[tuple[str, str], str]] = {}
        self._fetching: set[Connection] = set()
        self._ended: set[tuple[str, bytes, int, int]] = set()
        self._ending: dict[tuple[str, bytes, int, int], list[Exchange]] = {}
        """Requests that would end a record, and that have no answer yet."""
        self._numbers: dict[Connection, int] = {}
        door.on_request = self._requested
        door.on_answer = self._answered
        door.on_unanswered = self._unanswered
        door.on_over = self._over

    def _now(self) -> int:
        return self._world.now_ms

    def _requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, m.ShareFetchRequest | m.ShareAcknowledgeRequest):
            self._member(exchange, request)
            for place, offset, kind in _acknowledged(request):
                if kind == _RELEASE:
                    self._acknowledge(exchange, request, place, offset, kind, "sent")
                elif kind != _RENEW:
                    self._ending.setdefault((str(request.group_id), *place, offset), []).append(exchange)
            if request.share_session_epoch == -1:
                self._gone(exchange.connection)

    def _answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, m.ShareFetchRequest):
            assert isinstance(answer, m.ShareFetchResponse)
            errors = {
                (topic.topic_id, each.partition_index): each.acknowledge_error_code
                for topic in answer.responses
                for each in topic.partitions
            }
            self._outcomes(exchange, request, answer.error_code, errors)
            self._deliver(exchange, request, answer)
        elif isinstance(request, m.ShareAcknowledgeRequest):
            assert isinstance(answer, m.ShareAcknowledgeResponse)
            errors = {
                (topic.topic_id, each.partition_index): each.error_code
                for topic in answer.responses
                for each in topic.partitions
            }
            self._outcomes(exchange, request, answer.error_code, errors)

    def _outcomes(
        self, exchange: Exchange, request: ShareRequest, error: int, errors: dict[tuple[bytes, int], int]
    ) -> None:
        for place, offset, kind in _acknowledged(request):
            code = error or errors.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
            others = self._others_ending(exchange, (str(request.group_id), *place, offset))
            result = "ok" if code == 0 else "failed" if code in _CERTAINLY_NOT else "unknown"
            if code == 0 and self._is_old(exchange, str(request.group_id), place, offset, kind, others):
                if not others:
                    continue
                result = "unknown"
            self._acknowledge(exchange, request, place, offset, kind, result)

    def _others_ending(self, exchange: Exchange, record: tuple[str, bytes, int, int]) -> bool:
        """Whether somebody else has said that a record is done, and has no answer yet."""
        ending = [each for each in self._ending.get(record, ()) if each is not exchange]
        self._ending[record] = ending
        return any(each.connection is not exchange.connection for each in ending)

    def _is_old(
        self, exchange: Exchange, group: str, place: tuple[bytes, int], offset: int, kind: int, others: bool
    ) -> bool:
        """Whether it had ended before, and is below the start offset; what ends just now moves that, too.

        Somebody else may have ended it and not know it yet: then nobody can tell who it was.
        """
        record = (group, *place, offset)
        may_be = others or record in self._ended or kind == _RENEW  # what is held is not below it
        node = self.node(exchange.connection)
        is_old = may_be and node.is_serving and offset < self._start_offset(node, group, *place)
        if kind not in (_RELEASE, _RENEW) and not (others and is_old):
            self._ended.add(record)
        return is_old

    def _unanswered(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, m.ShareFetchRequest | m.ShareAcknowledgeRequest):
            if isinstance(request, m.ShareFetchRequest):
                self._fetching.add(exchange.connection)
            for place, offset, kind in _acknowledged(request):
                self._others_ending(exchange, (str(request.group_id), *place, offset))
                self._acknowledge(exchange, request, place, offset, kind, "unknown")

    def _acknowledge(
        self, exchange: Exchange, request: ShareRequest, place: tuple[bytes, int], offset: int, kind: int, result: str
    ) -> None:
        more: dict[str, object] = {}
        if kind == _RENEW:
            more["until"] = exchange.sent_ms + self._lock_ms - _ROUNDED_MS
        if kind == _RELEASE and self._backoff_ms:
            more["not_before"] = exchange.sent_ms + self._backoff_ms - _ROUNDED_MS
        self._tell(exchange, request, "acknowledge", place, offset, kind=_KINDS[kind], result=result, **more)

    def _deliver(self, exchange: Exchange, request: m.ShareFetchRequest, answer: m.ShareFetchResponse) -> None:
        is_held = self.is_held(exchange)
        if not is_held and self.passes_over_unheld:
            if any(each.acquired_records for topic in answer.responses for each in topic.partitions):
                self._fetching.add(exchange.connection)
                self._gone(exchange.connection)
            return
        until = self._now() if not is_held else exchange.sent_ms + self._lock_ms - _ROUNDED_MS
        for topic in answer.responses:
            for each in topic.partitions:
                for acquired in each.acquired_records:
                    for offset in range(acquired.first_offset, acquired.last_offset + 1):
                        place = (topic.topic_id, each.partition_index)
                        count = acquired.delivery_count
                        self._tell(exchange, request, "deliver", place, offset, count=count, until=until)

    def _tell(
        self,
        exchange: Exchange,
        request: ShareRequest,
        op: str,
        place: tuple[bytes, int],
        offset: int,
        **more: object,
    ) -> None:
        self._history.add(
            op,
            group=request.group_id,
            member=self._member(exchange, request),
            topic=self._topics[place[0]],
            partition=place[1],
            offset=offset,
            time=self._now(),
            **more,
        )

    def is_held(self, exchange: Exchange) -> bool:
        """Whether records of an answer are its member's: a broker that stops lets go of everything while it closes its
        connections."""
        return self.node(exchange.connection).is_serving and not exchange.connection.is_over

    def node(self, connection: Connection) -> Node:
        """The broker at the end of a connection."""
        return next(each for each in self._world.nodes if each.name == connection.broker.machine)

    def _member(self, exchange: Exchange, request: ShareRequest) -> str:
        connection, group = exchange.connection, str(request.group_id)
        number = self._numbers.setdefault(connection, len(self._numbers) + 1)
        name = f"{exchange.client}#{number}"
        self._members.setdefault(connection, {})[group, str(request.member_id)] = name
        return name

    def _over(self, connection: Connection) -> None:
        self._gone(connection)
        self._members.pop(connection, None)

    def _gone(self, connection: Connection) -> None:
        for (group, _), name in self._members.get(connection, {}).items():
            fetching = connection in self._fetching
            self._history.add("gone", group=group, member=name, time=self._now(), fetching=fetching)


def _acknowledged(request: ShareRequest) -> Iterator[tuple[tuple[bytes, int], int, int]]:
    """Topic and partition, offset, and kind of each acknowledgement."""
    for topic in request.topics:
        for partition in topic.partitions:
            for batch in partition.acknowledgement_batches:
                kinds = batch.acknowledge_types
                for index, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                    kind = kinds[0] if len(kinds) == 1 else kinds[index]
                    yield (topic.topic_id, partition.partition_index), offset, kind
