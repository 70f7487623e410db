"""The loads of one broker on a cluster of three, where leaders move, brokers are replaced, and servers fail."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence

from penstock.broker.server import Broker
from penstock.catalog.contract import Catalog
from penstock.client.admin import Admin
from penstock.simulation.cluster import ClusterSimulation
from penstock.storage.objects.commit_log import PartitionKey
from penstock.wire import messages as m
from tests.simulation.administration import Configs, Rules
from tests.simulation.cluster_faults import EVERYWHERE, ClusterStage
from tests.simulation.copying import OUT, Copying
from tests.simulation.followers import Followed
from tests.simulation.groups import TOPIC as EVENTS
from tests.simulation.groups import ConsumerGroups, Groups, Migration, StaticMembers
from tests.simulation.leases import watch_leases
from tests.simulation.quotas import Quotas
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.removal import Compacting, Trimming
from tests.simulation.scenario import Scenario
from tests.simulation.stores import REMOVED_SOON, STORES, settle, watch
from tests.simulation.stream_requests import PARTITIONS, TOPIC, produce_request
from tests.simulation.streams import Transactions
from tests.simulation.zombies import Zombies

_OF_SERVERS = re.compile(r"(catalog|store)(: the connection was lost| is away| does not answer)")


class OnCluster(Scenario):
    """What loads need to know of a cluster."""

    world: ClusterSimulation
    kinds: Sequence[str] = EVERYWHERE
    lasts_ms = 6_000
    topics: Sequence[str] = (TOPIC,)

    @classmethod
    def make_world(cls, seed: int) -> ClusterSimulation:
        configs = {**STORES[seed % len(STORES)], **cls.configs(seed)}
        return ClusterSimulation(seed, configs, protocol=cls.security_protocol(seed))

    def before_start(self) -> None:
        super().before_start()
        watch(self.world, self.find)
        watch_leases(self.world, self.find)

    def expects(self, error: str) -> bool:
        return bool(_OF_SERVERS.search(error))

    @property
    def catalog(self) -> Catalog:
        return self.world.catalog

    async def settle(self) -> None:
        await settle(self.world, self.find)

    async def inject(self) -> None:
        await ClusterStage(self.world, self.crowd, self.topics).carry_out(self.plan)

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        async def create() -> None:
            async with Admin(**access(self.world)) as admin:
                await admin.create_topic(name, partitions, replication_factor=3, configs=dict(configs or {}))

        await self.world.spawn("creator", create).task
        return self._topic_id(name)

    def _topic_id(self, name: str) -> bytes:
        return next(row.topic_id for row in self.world.database.catalog.topics() if row.name == name)

    def end_offsets(self, topic: str) -> dict[int, int]:
        commits, topic_id = self.world.database.commits, self._topic_id(topic)
        states = commits.states([key for key in commits.partitions() if key.topic_id == topic_id])
        return {key.partition: state.end_offset for key, state in states.items()}

    def _leader(self, topic: str, partition: int) -> int:
        commits = self.world.database.commits
        key = PartitionKey(self._topic_id(topic), partition)
        return commits.states([key])[key].leader

    def leading(self, topic: str, partition: int) -> Broker:
        return self.world.nodes[self._leader(topic, partition) - 1].broker

    async def connect(self, name: str, partition: int = 0) -> RawClient:
        leader = self._leader(self.topics[0], partition)
        return await RawClient.connect(self.world, name, address=self.world.nodes[leader - 1].address)


class ClusterStreams(OnCluster, Followed):
    """`streams`, with readers of `penstock.client`."""

    name = "cluster-streams"

    async def _produce(self, name: str, acks: int) -> None:
        """One record after the other, each sent once to whoever leads at the time."""
        chance = random.Random(f"{name} of {self.seed}")
        for number in range(25):
            value, partition = f"{name}-{number}", chance.randrange(PARTITIONS)
            await asyncio.sleep(chance.uniform(0, 0.4))
            sent = {"process": name, "topic": TOPIC, "partition": partition, "value": value}
            try:
                client = await self.connect(name, partition)
                request = produce_request(partition, value, acks)
                if acks == 0:
                    client.post(request, 12)
                    self.history.add("send", **sent, result="unknown")
                    continue
                answer = await client.ask(request, m.ProduceResponse, 12)
                client.close()
            except Lost:
                self.history.add("send", **sent, result="unknown")
                continue
            [result] = answer.responses[0].partition_responses
            # acks=1 waits for the commit as well: a broker can be replaced at any time.
            outcome = (
                {"result": "ok", "offset": result.base_offset} if result.error_code == 0 else {"result": "unknown"}
            )
            self.history.add("send", **sent, **outcome)


class ClusterTransactions(ClusterStreams, Transactions):
    """`transactions`, over partitions of several brokers, whose coordinators move too."""

    name = "cluster-transactions"


class ClusterZombies(ClusterStreams, Zombies):
    """`zombies`, whose requests arrive at one leader or at its successor."""

    name = "cluster-zombies"


class ClusterCopying(ClusterStreams, Copying):
    """`exactly-once`."""

    kinds = EVERYWHERE
    name = "cluster-exactly-once"
    topics = (TOPIC, OUT)


class ClusterTrimming(Trimming, ClusterStreams):
    """`files-trimmed`, while leaders move: whoever takes over knows where the log begins, and what is gone leaves the
    store."""

    name = "cluster-trimmed"

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {**super().configs(seed), **REMOVED_SOON}


class ClusterCompacting(Compacting, ClusterTrimming):
    """`files-compacted`: whoever leads compacts segments of the object store."""

    name = "cluster-compacted"


class ClusterGroups(OnCluster, Groups):
    """`groups`."""

    name = "cluster-groups"
    topics = (EVENTS,)


class ClusterConsumerGroups(OnCluster, ConsumerGroups):
    """`groups-848`."""

    name = "cluster-groups-848"
    topics = (EVENTS,)


class ClusterMigration(OnCluster, Migration):
    """`migration`."""

    name = "cluster-migration"
    topics = (EVENTS,)


class ClusterStaticMembers(OnCluster, StaticMembers):
    """`static-members`, also where their coordinator moves meanwhile."""

    name = "cluster-static-members"
    topics = (EVENTS,)
    kinds = (*StaticMembers.kinds, "drain", "move-leaders")


class ClusterConfigs(OnCluster, Configs):
    """`configs`, of which every broker hears from the catalog: they agree in the end."""

    name = "cluster-configs"
    is_strict = False


class ClusterQuotas(OnCluster, Quotas):
    """`quotas`, in the same way."""

    name = "cluster-quotas"
    is_strict = False


class ClusterRules(OnCluster, Rules):
    """`acls`, in the same way."""

    name = "cluster-acls"
    is_strict = False
