"""Queues on a cluster: leaders of partitions and keepers of their state move while workers hold records.

Each delivery is judged by the window of the leader that it came from, as those of real clusters are
(`tests/cluster/storm/leadership.py`): the catalog says who led when, the brokers say which windows they loaded.
"""

from __future__ import annotations

import logging
import random
import sys

from penstock.simulation.cluster import ClusterSimulation
from penstock.simulation.door import Door, Exchange
from penstock.simulation.loop import current_process
from penstock.simulation.network import Connection
from penstock.simulation.node import Node
from penstock.wire import messages as m
from tests.cluster.storm.leadership import Judged, Loaded, Place, judged, leaderships
from tests.simulation.cluster_faults import EVERYWHERE
from tests.simulation.clusters import OnCluster
from tests.simulation.queue_history import QueueHistory, ShareRequest
from tests.simulation.queue_services import BuriedQueues, CommittedQueues, DelayedQueues
from tests.simulation.queues import LOCK_MS, PARTITIONS, TOPIC, Queues
from tests.simulation.scenario import History

_ROUNDED_MS = 1
"""All clocks of the world are one."""
_LOADED = "loaded the window of group"


class ClusterQueues(OnCluster, Queues):
    """`queues`; each delivery is judged by the window of the leader that it came from."""

    name = "cluster-queues"
    topics = (TOPIC,)

    def record(self, door: Door, topics: dict[bytes, str]) -> None:
        self._leaders = Leaders(self.world, topics)
        recorded = ClusterQueueHistory(self.history, door, self.world, topics, _start_offset, LOCK_MS, self.backoff_ms)
        door.on_unanswerable = recorded.unanswerable

    def by_hand(self, chance: random.Random) -> tuple[int, ...]:
        return (chance.randrange(PARTITIONS),)

    def conclude(self) -> None:
        result = self._leaders.judged(self.history, LOCK_MS)
        self.history.operations = result.operations
        self.history.findings += result.findings


class ClusterBuriedQueues(ClusterQueues, BuriedQueues):
    """`queues-dead-letters`, with letters in partitions that other brokers lead."""

    name = "cluster-queues-dead-letters"


class ClusterDelayedQueues(ClusterQueues, DelayedQueues):
    """`queues-delayed`: the next leader finds out anew what is due."""

    name = "cluster-queues-delayed"
    kinds = tuple(kind for kind in EVERYWHERE if kind != "clock-jump")


class ClusterCommittedQueues(ClusterQueues, CommittedQueues):
    """`queues-read-committed`, over partitions of several leaders."""

    name = "cluster-queues-read-committed"


def _start_offset(node: Node, group: str, topic_id: bytes, partition: int) -> int:
    """Where the window of a partition begins at a broker.

    A window may be gone when an acknowledgement is answered: then nobody knows whether the record was below its start.
    """
    live = node.broker.parts.share_groups.windows.find(group, (topic_id, partition))
    return live.core.start_offset if live is not None else sys.maxsize


class Leaders(logging.Handler):
    """Takes note of who leads the partitions of some topics, and of each window that a broker loads."""

    def __init__(self, world: ClusterSimulation, topics: dict[bytes, str]) -> None:
        super().__init__(logging.DEBUG)
        self._world = world
        self._topics = topics
        self._changes: list[tuple[Place, int, int, float]] = []
        self._latest: dict[Place, tuple[int, int]] = {}
        self._loaded: list[Loaded] = []
        self._look()
        world.database.on_change.append(self._look)
        listened = logging.getLogger("penstock.share")
        level = listened.level
        listened.setLevel(logging.DEBUG)
        listened.addHandler(self)
        world.over.callback(listened.setLevel, level)
        world.over.callback(listened.removeHandler, self)

    @property
    def _now_ms(self) -> float:
        return self._world.loop.time() * 1000

    def _look(self) -> None:
        for row in self._world.database.catalog.partitions():
            if row.topic_id in self._topics:
                place = (self._topics[row.topic_id], row.partition_index)
                leads = (row.leader, row.leader_epoch)
                if self._latest.get(place) != leads:
                    self._latest[place] = leads
                    self._changes.append((place, *leads, self._now_ms))

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process()
        if str(record.msg).startswith(_LOADED) and isinstance(record.args, tuple) and process is not None:
            _, topic, partition, _, epoch = record.args
            node = next(each.node_id for each in self._world.nodes if each.name == process.machine)
            self._loaded.append(Loaded((str(topic), int(str(partition))), node, self._now_ms, int(str(epoch))))

    def judged(self, history: History, lock_ms: int) -> Judged:
        return judged(history.operations, leaderships(self._changes), self._loaded, lock_ms, _ROUNDED_MS)


class ClusterQueueHistory(QueueHistory):
    """The same history, in which each delivery and acknowledgement names the broker that it came from."""

    passes_over_unheld = False

    def _requested(self, exchange: Exchange) -> None:
        super()._requested(exchange)
        request = exchange.request
        if isinstance(request, m.ShareFetchRequest | m.ShareAcknowledgeRequest) and request.share_session_epoch == 0:
            self._gone(exchange.connection)

    def unanswerable(self, exchange: Exchange) -> None:
        """Records may have been acquired for a fetch until the broker heard that its connection was over, or died."""
        request = exchange.request
        if isinstance(request, m.ShareFetchRequest):
            self._history.add(
                "lost-fetch",
                group=request.group_id,
                member=self._member(exchange, request),
                node=self.node(exchange.connection).node_id,
                sent=exchange.sent_ms,
                time=self._now(),
            )

    def _deliver(self, exchange: Exchange, request: m.ShareFetchRequest, answer: m.ShareFetchResponse) -> None:
        super()._deliver(exchange, request, answer)
        if not self.is_held(exchange):
            self._gone(exchange.connection)

    def _tell(
        self,
        exchange: Exchange,
        request: ShareRequest,
        op: str,
        place: tuple[bytes, int],
        offset: int,
        **more: object,
    ) -> None:
        if more.get("result") != "sent":  # whoever judges it knows when it was sent
            node = self.node(exchange.connection).node_id
            super()._tell(exchange, request, op, place, offset, **more, node=node, sent=exchange.sent_ms)

    def _gone(self, connection: Connection) -> None:
        node, now = self.node(connection).node_id, self._now()
        for name in self._members.get(connection, {}).values():
            self._history.add("session-over", member=name, node=node, since=now, time=now)
