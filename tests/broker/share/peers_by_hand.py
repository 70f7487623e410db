"""Other brokers that answer when the test says so, and a view in which they lead everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from penstock.broker.cluster_view import ClusterView
from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane, Peers
from penstock.broker.topics import Topic
from penstock.wire import messages as m

LOST = PeerFailed("the connection broke")
UNSENT = PeerFailed("nobody answers", is_unsent=True)


class PeersByHand:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self._waiting: list[Callable[[Any], None]] = []

    def send(
        self, node_id: int, lane: Lane, request: m.Message, response: type[m.Message], done: Callable[[Any], None]
    ) -> None:
        self.sent.append((node_id, request))
        self._waiting.append(done)

    def answer(self, answer: m.Message | PeerFailed) -> None:
        self._waiting.pop(0)(answer)

    def find(self) -> Peers:
        return cast(Peers, self)


class ViewOfOthers:
    """Broker `1 + index % 2` leads each partition of the topics named; nobody leads those of others."""

    def __init__(self, *topics: Topic) -> None:
        self._topics = {topic.name: topic for topic in topics}

    def find_topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def leader_elsewhere(self, name: str, index: int) -> int | None:
        return 1 + index % 2 if name in self._topics else None

    def view(self) -> ClusterView:
        return cast(ClusterView, self)
