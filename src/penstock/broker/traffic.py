"""Bytes and records that producers bring and consumers fetch, by topic. It is switched on with the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic

_NAME = "kafka_server_brokertopicmetrics_"


class Traffic:
    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._in: dict[bytes, list[int]] = {}
        """By topic: bytes, records."""
        self._out: dict[str | bytes, int] = {}
        """By what a fetch calls the topic: its name, or from version 13 on its id."""

    def produced(self, topic: Topic, size: int, messages: int) -> None:
        found = self._in.get(topic.topic_id)
        if found is None:
            found = self._in[topic.topic_id] = [0, 0]
        found[0] += size
        found[1] += messages

    def fetched(self, name_or_id: str | bytes, size: int) -> None:
        """A consumer is sent so many bytes of a topic."""
        self._out[name_or_id] = self._out.get(name_or_id, 0) + size

    def topic_deleted(self, topic: Topic) -> None:
        self._in.pop(topic.topic_id, None)
        self._out.pop(topic.topic_id, None)
        self._out.pop(topic.name, None)

    def metrics(self) -> Iterator[Metric | None]:
        bytes_in, messages_in = Metric(_NAME + "bytesin_total"), Metric(_NAME + "messagesin_total")
        bytes_out = Metric(_NAME + "bytesout_total")
        for topic in self._cluster.topics():
            size, messages = self._in.get(topic.topic_id, (0, 0))
            bytes_in.add(size, topic.name)
            messages_in.add(messages, topic.name)
            bytes_out.add(self._out.get(topic.topic_id, 0) + self._out.get(topic.name, 0), topic.name)
            yield None
        yield from (bytes_in, messages_in, bytes_out)
