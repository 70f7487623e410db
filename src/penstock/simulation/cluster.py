"""Several brokers over one database and one object store, as `--cluster` and `--store` have them.

Each broker has a machine of its own, with a folder for what it caches. The engine, the membership and everything above
are those of production; simulated are the database (`database`, `links`), the store (`bucket`) and the network.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.broker.joining import Links, join
from penstock.broker.membership import PROBE_SECONDS
from penstock.broker.object_engine import object_storage
from penstock.security.protocols import SecurityProtocol
from penstock.simulation.bucket import Bucket, SimulatedStore
from penstock.simulation.database import Database
from penstock.simulation.links import CatalogLink, CommitLink, HeldCatalogLink, LeaseLink, Link
from penstock.simulation.node import EPOCH_MS, Loss, Node
from penstock.simulation.remote import Server
from penstock.simulation.strands import Wait
from penstock.simulation.tls import listener_of
from penstock.simulation.world import SimulatedWorld
from penstock.storage.objects.key_space import KeySpace

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.foundation import Foundation, OnFailure
    from penstock.broker.world import World
    from penstock.catalog.leases import MemberCatalog, MemberReader
    from penstock.catalog.memory import MemoryCatalog
    from penstock.catalog.shared import HostAndPort
    from penstock.simulation.loop import Process
    from penstock.storage.contract import LeasedStorage
    from penstock.storage.objects.commit_log import CommitLog

KEYS = KeySpace("cluster")
CONFIGS = {"broker.session.timeout.ms": "4000", "penstock.store.window.ms": "100"}

_CATALOG_SECONDS = (0.0002, 0.002)
_CATALOG_ANSWER_SECONDS = 4.0
_STORE_SECONDS = (0.001, 0.02)
_STORE_ANSWER_SECONDS = 20.0
_MEMORY_FOLDER = Path("/dev/shm")


class ClusterGround:
    """See `node.Ground`."""

    has_threads = True

    def __init__(self, world: ClusterSimulation, folder: Path, instance_id: str) -> None:
        self._world = world
        self._folder = folder
        self._instance_id = instance_id
        """As a data folder keeps it."""

    def lay(
        self, node: Node, process: Process, config: BrokerConfig, world: World, on_failure: OnFailure
    ) -> Foundation:
        cluster = self._world
        self._folder.mkdir(exist_ok=True)

        def link() -> Link:
            lease_seconds = config.broker_session_timeout_ms / 1000
            return Link(cluster.catalog_server, cluster.database, process, lease_seconds)

        def open_storage(broker_epoch: int) -> LeasedStorage:
            store = SimulatedStore.of(process, cluster.store_server, cluster.bucket)
            return object_storage(
                self._folder,
                store,
                KEYS,
                cast("CommitLog", CommitLink(link())),
                config,
                world,
                on_failure,
                broker_epoch=broker_epoch,
            )

        of_thread = link()
        return join(
            Links(
                cast("MemberCatalog", HeldCatalogLink(link())),
                cast("MemberReader", CatalogLink(of_thread)),
                LeaseLink(of_thread),
            ),
            self._instance_id,
            open_storage,
            lambda: [listener_of(cluster.network, process, node.address, config)],
            config,
            world,
            on_failure,
            clock=world.monotonic,
            refuses=partial(cluster.refuses, process),
        )

    def process_died(self, node: Node, now_ms: int) -> None:
        """What it had cached stays, and nobody vouches for it."""

    def power_cut(self, node: Node, now_ms: int) -> list[Loss]:
        return []

    def wipe(self) -> None:
        """The machine is replaced by another with an empty disk."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._instance_id = self._world.chance.randbytes(16).hex()


class ClusterSimulation(SimulatedWorld):
    """Brokers `broker-1`, `broker-2`, … with node ids from 1 on."""

    def __init__(
        self,
        seed: int,
        configs: Mapping[str, str] | None = None,
        brokers: int = 3,
        configs_of: Callable[[int], Mapping[str, str]] = lambda node_id: {},
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        """`configs_of` gives what is different for one broker."""
        self._brokers = brokers
        self._configs_of = configs_of
        super().__init__(seed, {**CONFIGS, **(configs or {})}, protocol)

    def _build(self, configs: Mapping[str, str]) -> list[Node]:
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None))
        self.over.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = Database(self.loop.time)
        self.bucket = Bucket(lambda: EPOCH_MS / 1000 + self.loop.time())
        self.catalog_server = Server(self, "catalog", _CATALOG_SECONDS, _CATALOG_ANSWER_SECONDS)
        self.store_server = Server(self, "store", _STORE_SECONDS, _STORE_ANSWER_SECONDS)
        self._grounds: dict[str, ClusterGround] = {}
        nodes = []
        for node_id in range(1, self._brokers + 1):
            name = f"broker-{node_id}"
            ground = self._grounds[name] = ClusterGround(self, self.folder / name, self.chance.randbytes(16).hex())
            its_own = {"node.id": str(node_id), **self._configs_of(node_id)}
            nodes.append(Node(self, self._address(name), ground, {**configs, **its_own}))
        return nodes

    @property
    def figures(self) -> dict[str, int]:
        return {
            "requests to the catalog": self.catalog_server.carried_out,
            "requests to the store": self.store_server.carried_out,
            "objects removed": len(self.bucket.deleted & self.database.commits.ever_named),
            "orphans removed": len(self.bucket.deleted - self.database.commits.ever_named),
            **self.bucket.counts,
        }

    @property
    def catalog(self) -> MemoryCatalog:
        """What the database has, for whoever looks, or changes something, from outside."""
        return self.database.catalog

    def wipe(self, node: Node) -> None:
        """Replace the machine of a broker that is down by another one, with an empty disk."""
        self._grounds[node.name].wipe()

    def refuses(self, process: Process, address: HostAndPort) -> bool:
        """Whether nobody listens at an address, as a thread of a process finds out."""
        strands = self.loop.strands
        Wait(strands).until_ended(2 * self.network.latency())
        if self.network.is_silent(process, address.host):
            Wait(strands).until_ended(PROBE_SECONDS)
            return False
        return self.network.listener(address.host, address.port) is None
