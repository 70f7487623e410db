"""Several real brokers in one event loop that are one cluster: a shared catalog, and fixed owners of partitions.

All topics are there before the brokers start. Each broker keeps its logs in a memory of its own, which survives the
broker: one that starts again finds what it had. Who leads what is decided by the test, by topic and partition.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import pytest

from penstock.broker import parts as parts_module
from penstock.broker.cluster_view import BrokerEndpoint, ClusterView, Leader
from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure, Settings, open_sockets
from penstock.broker.handlers.groups import GroupHandlers
from penstock.broker.parts import Parts
from penstock.broker.requests import AnyRequest
from penstock.broker.server import Broker
from penstock.broker.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Topic
from penstock.broker.world import World
from penstock.catalog.memory import MemoryCatalog
from penstock.security.acls import AclBinding
from penstock.storage.contract import LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.testing.broker import FAST_CONFIGS
from penstock.wire import messages as m
from penstock.wire.hashing import coordinator_partition

PARTITIONS = 4
COORDINATORS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC, 2: SHARE_STATE_TOPIC}

Owner = Callable[[str, int], int]


class OwnedStorage(MemoryStorage):
    """Leads the partitions of one broker only."""

    def __init__(self, node_id: int, owner: Owner, call_soon: Callable[[Callable[[], None]], object]) -> None:
        super().__init__(call_soon)
        self._node_id = node_id
        self._owner = owner

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> MemoryLog:
        log = super().open_log(topic, partition, topic_id, config)
        log.is_leader = self._owner(topic, partition) == self._node_id
        return log


class HandMadeCluster:
    def __init__(
        self,
        owner: Owner,
        topics: Mapping[str, int],
        nodes: int = 3,
        configs: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        topic_configs: Mapping[str, Mapping[str, str]] | None = None,
        acls: list[AclBinding] | None = None,
    ) -> None:
        self.owner = owner
        self.catalog = MemoryCatalog(secret=bytes(range(32)))
        self.brokers: dict[int, Broker] = {}
        self._configs = {**FAST_CONFIGS, **(configs or {})}
        self._listen = listen
        self._storages: dict[int, OwnedStorage] = {}
        self._node_ids = range(1, nodes + 1)
        internal = {name: {"cleanup.policy": "compact"} for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)}
        for name, partitions in {**dict.fromkeys(COORDINATORS.values(), PARTITIONS), **topics}.items():
            made = {**internal.get(name, {}), **(topic_configs or {}).get(name, {})}
            self.catalog.create_topic(name, uuid.uuid4().bytes, partitions, made)
        self.catalog.change_acls(acls or [], [])

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def parts(self, node_id: int) -> Parts:
        return self.brokers[node_id].parts

    async def start(self, node_id: int) -> Broker:
        def lay(settings: Settings, config: BrokerConfig, world: World, _: OnFailure) -> Foundation:
            if node_id not in self._storages:
                self._storages[node_id] = OwnedStorage(node_id, self.owner, world.call_soon)
            return Foundation(self.catalog, self._storages[node_id], lambda: open_sockets(settings, config))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parts_module, "ClusterView", lambda *args: _View(self, *args))
            settings = Settings(listen=[self._listen], configs={**self._configs, "node.id": str(node_id)})
            broker = Broker(settings, lay)
            await broker.start()
        self.brokers[node_id] = broker
        return broker

    async def kill(self, node_id: int) -> None:
        """End a broker without a word to anybody: nothing is answered, nobody leaves."""
        parts = self.brokers.pop(node_id).parts
        parts.acceptor.close_listeners()
        parts.acceptor.close_connections()
        if parts.is_built("peers"):
            parts.peers.stop()
        parts.stop_coordinators()
        parts.upkeep.stop()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(GroupHandlers, "_coordinator", self._coordinator())
        for node_id in self._node_ids:
            await self.start(node_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            broker.stop()
            await asyncio.wait_for(broker.serve(), 30)
        self._patch.undo()

    def _coordinator(self) -> object:
        def find(
            _: GroupHandlers, request: AnyRequest, key_type: int, key: str
        ) -> m.FindCoordinatorResponse.Coordinator:
            node_id = self.owner(COORDINATORS[key_type], coordinator_partition(key, PARTITIONS))
            broker = self.brokers.get(node_id)
            made = m.FindCoordinatorResponse.Coordinator
            if broker is None:
                return made(key=key, node_id=-1, port=-1, error_code=15)
            return made(key=key, node_id=node_id, host="127.0.0.1", port=broker.port, error_message="")

        return find


class _View(ClusterView):
    def __init__(self, stage: HandMadeCluster, cluster_id: str, node_id: int, rack: str | None) -> None:
        super().__init__(cluster_id, node_id, rack)
        self._stage = stage
        self.is_shared = True

    def brokers(self, listener_name: str) -> list[BrokerEndpoint]:
        return [
            BrokerEndpoint(node_id, "127.0.0.1", broker.port, None) for node_id, broker in self._stage.brokers.items()
        ]

    def leader(self, topic: Topic, index: int) -> Leader | None:
        node_id = self._stage.owner(topic.name, index)
        if node_id != self.node_id and node_id not in self._stage.brokers:
            return None
        return Leader(node_id, 0)
