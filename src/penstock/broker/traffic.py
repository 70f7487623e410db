"""Bytes and records that producers bring and consumers fetch, by topic. It is switched on with the metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic

_NAME = "kafka_server_brokertopicmetrics_"


class _Produced(dict[bytes, list[int]]):
    def __missing__(self, topic_id: bytes) -> list[int]:
        counts = self[topic_id] = [0, 0]
        return counts


class Traffic:
    """What handlers count with every request is open to them: a call would cost more than the counting."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self.produced = _Produced()
        """By topic id: bytes, records."""
        self.fetched: defaultdict[str | bytes, int] = defaultdict(int)
        """Bytes by what a fetch calls the topic: its name, or from version 13 on, and in a ShareFetch, its id."""

    def topic_deleted(self, topic: Topic) -> None:
        self.produced.pop(topic.topic_id, None)
        self.fetched.pop(topic.topic_id, None)
        self.fetched.pop(topic.name, None)

    def metrics(self) -> Iterator[Metric | None]:
        bytes_in, messages_in = Metric(_NAME + "bytesin_total"), Metric(_NAME + "messagesin_total")
        bytes_out = Metric(_NAME + "bytesout_total")
        for topic in self._cluster.topics():
            size, messages = self.produced.get(topic.topic_id, (0, 0))
            bytes_in.add(size, topic.name)
            messages_in.add(messages, topic.name)
            bytes_out.add(self.fetched.get(topic.topic_id, 0) + self.fetched.get(topic.name, 0), topic.name)
            yield None
        yield from (bytes_in, messages_in, bytes_out)
