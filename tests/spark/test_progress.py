"""Progress is committed to a group without holding the stream up."""

from __future__ import annotations

import socket
import time

from penstock.client.types import TopicPartition
from penstock.spark.planning import ClusterView
from penstock.spark.progress import ProgressCommitter
from penstock.testing import Broker


def test_the_newest_offsets_are_committed(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("orders", partitions=1)
    place = TopicPartition("orders", 0)
    committer = ProgressCommitter("lake", penstock_broker.bootstrap_servers, "test")
    try:
        for offset in range(1, 51):
            committer.commit({place: offset})
        assert committer.settle(30)
    finally:
        committer.close()
    with ClusterView(penstock_broker.bootstrap_servers) as view:
        assert view.committed("lake")[place].offset == 50


def test_a_broker_that_never_answers_holds_nothing_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        committer = ProgressCommitter("lake", f"127.0.0.1:{silent.getsockname()[1]}", "test")
        committer.commit({TopicPartition("orders", 0): 1})
        committer.commit({TopicPartition("orders", 0): 2})
        assert not committer.settle(0.05)
        started = time.monotonic()
        committer.close()
        assert time.monotonic() - started < 30  # the thread still waits for an answer; nobody waits for the thread
