"""A Penstock broker for Kafka's own tools, one for all: each tool is a JVM, each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import PenstockPeer


@pytest.fixture(scope="session")
def broker() -> Iterator[PenstockPeer]:
    settings = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    with PenstockPeer(settings) as peer:
        yield peer
