"""The parts of a broker that has neither files nor sockets, nor an event loop."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation
from penstock.broker.parts import Parts
from penstock.catalog.memory import MemoryCatalog
from penstock.storage.memory import MemoryStorage
from penstock.testing.broker import FAST_CONFIGS
from tests.broker.simulated_world import SimulatedWorld


class MemoryFoundation:
    """Catalog and storage that outlive the parts, as files do."""

    def __init__(self) -> None:
        self.world = SimulatedWorld()
        self.catalog = MemoryCatalog()
        self.storage = MemoryStorage(self.world.call_soon)

    def parts(self, configs: Mapping[str, str] | None = None) -> Parts:
        foundation = Foundation(self.catalog, self.storage, list)
        return Parts(BrokerConfig({**FAST_CONFIGS, **(configs or {})}), self.world, foundation)
