"""Brokers as processes that are one cluster: over a PostgreSQL of the tests, and a folder as their object store."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.client.sync import Admin
from tests.broker.process import BrokerProcess
from tests.postgres import PostgresServer

SECONDS = 60
INTERNAL: dict[str, Any] = {
    "offsets_topic_num_partitions": 4,
    "transaction_state_log_num_partitions": 4,
    "share_coordinator_state_topic_num_partitions": 4,
    "group_initial_rebalance_delay_ms": 0,
}


class Members:
    """Brokers 1 to `count`; each keeps its port and its folder when it is started again."""

    broker_class = BrokerProcess

    def __init__(
        self, folder: Path, postgres: PostgresServer, count: int = 3, lease_ms: int = 3000, **configs: Any
    ) -> None:
        self.cluster = postgres.url(f"s{uuid.uuid4().hex}")
        self.store = f"file://{folder}/store"
        self.folder = folder
        self.lease_seconds = lease_ms / 1000
        self._configs = {**INTERNAL, "broker_session_timeout_ms": lease_ms, **configs}
        self.brokers = {node_id: self.process(node_id) for node_id in range(1, count + 1)}

    def process(self, node_id: int, folder: str | None = None) -> BrokerProcess:
        data = self.folder / (folder or f"broker-{node_id}")
        return self.broker_class(data, cluster=self.cluster, store=self.store, node_id=node_id, **self._configs)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            if broker.is_running:
                self.signal(broker, signal.SIGCONT)
                broker.kill()

    def signal(self, broker: BrokerProcess, number: signal.Signals) -> None:
        os.kill(broker.pid, number)

    def leaders(self, topic: str) -> list[int]:
        """Of each partition, -1 where nobody leads."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            return [each.leader for _, each in sorted(admin.describe_topic(topic).partitions.items())]

    def until_led_by_others(self, topic: str, node_id: int) -> list[int]:
        return until(lambda: self._by_others(topic, node_id))

    def _by_others(self, topic: str, node_id: int) -> list[int]:
        leaders = self.leaders(topic)
        return [] if {-1, node_id} & set(leaders) else leaders


def until(condition: Callable[[], list[int]]) -> list[int]:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found
