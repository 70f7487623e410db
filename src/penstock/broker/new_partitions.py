"""Holds an answer about new partitions until this broker leads those of them that it is to lead.

With logs in an object store, a partition is led a few milliseconds after the catalog knows it. Whoever creates a topic
and uses it at once would meet LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER, where Apache Kafka names a leader as soon
as there is a topic. A topic that has been created stays created: when the time is up, the answer is sent all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.requests import AnyRequest, Pending
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Partition, Topic
    from penstock.broker.world import Timer, World

_SECONDS_MAX = 5.0

R = TypeVar("R", bound=Message)


class NewPartitions:
    def __init__(self, cluster: ClusterView, world: World) -> None:
        self._world = world
        self._waiting: list[_Waiting] = []
        cluster.on_leadership_changed.append(self._changed)

    def when_led(self, request: AnyRequest, response: R, topics: Iterable[Topic], timeout_ms: int) -> R | Pending:
        """The response, at once or when the open partitions of these topics are led."""
        left = {
            partition
            for topic in topics
            for partition in topic.open_partitions()
            if topic.find_hosted(partition.index) is None
        }
        if timeout_ms <= 0 or not left:
            return response
        waiting = _Waiting(request.defer(), response, left)
        waiting.timer = self._world.call_later(min(timeout_ms / 1000, _SECONDS_MAX), self._answer, waiting)
        self._waiting.append(waiting)
        return waiting.pending

    def _changed(self, partition: Partition) -> None:
        """It is led from here now, or by another broker; in both cases nobody has to wait for it any more."""
        for waiting in [each for each in self._waiting if partition in each.left]:
            waiting.left.remove(partition)
            if not waiting.left:
                self._answer(waiting)

    def _answer(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        assert waiting.timer is not None
        waiting.timer.cancel()
        waiting.pending.complete(waiting.response)


class _Waiting:
    __slots__ = ("left", "pending", "response", "timer")

    def __init__(self, pending: Pending, response: Message, left: set[Partition]) -> None:
        self.pending = pending
        self.response = response
        self.left = left
        self.timer: Timer | None = None
