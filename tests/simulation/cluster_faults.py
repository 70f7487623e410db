"""What can happen to a cluster: to its brokers, its database and its store, to the network, and by administrators.

Faults overlap. One that has nobody left to happen to is passed over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from penstock.broker.topics import TRANSACTIONS_TOPIC
from penstock.catalog.contract import CatalogError
from penstock.simulation import Process
from penstock.simulation.cluster import ClusterSimulation
from penstock.simulation.network import Network
from penstock.simulation.node import Node
from penstock.simulation.remote import Server
from penstock.storage.contract import StorageError
from penstock.wire import messages as m
from tests.simulation.faults import Crowd, Fault
from tests.simulation.raw import Lost, RawClient

LEASE_SECONDS = 4
_START_AGAIN_SECONDS = 0.3
_HIT_SECONDS = 5.0
_UPGRADES: tuple[dict[str, str], ...] = (
    {"penstock.store.window.ms": "10"},
    {"penstock.store.window.ms": "400", "group.consumer.heartbeat.interval.ms": "700"},
    {"broker.session.timeout.ms": "3000"},
    {},
)


class ClusterStage:
    """What faults happen to."""

    def __init__(self, world: ClusterSimulation, crowd: Crowd, topics: Sequence[str], replicas: int = 3) -> None:
        self.world = world
        self.crowd = crowd
        self.topics = topics
        """Of which leaders are moved."""
        self._busy: set[Node] = set()
        self._latencies: dict[Network | Server, list[tuple[float, float]]] = {}

    async def carry_out(self, plan: Sequence[Fault]) -> None:
        """Let each fault happen at its time, and return when all of them are healed and every broker runs."""
        await asyncio.gather(*(self._happen(fault) for fault in plan))
        self.world.network.heal()
        for node in self.world.nodes:
            await self.start(node)

    async def _happen(self, fault: Fault) -> None:
        await asyncio.sleep(max(0, fault.at_ms - self.world.now_ms) / 1000)
        await KINDS[fault.kind](self, fault)

    async def slow_down(self, what: Network | Server, latency_seconds: tuple[float, float], seconds: float) -> None:
        """For a while, which others may overlap: when the last is over, it is as fast as before the first."""
        latencies = self._latencies.setdefault(what, [what.latency_seconds])
        latencies.append(latency_seconds)
        what.latency_seconds = latency_seconds
        await asyncio.sleep(seconds)
        latencies.remove(latency_seconds)
        what.latency_seconds = latencies[-1]

    def node(self, fault: Fault) -> Node | None:
        """To whom it happens; None if that broker does not run, or is being started or stopped."""
        node = self.world.nodes[fault.size % len(self.world.nodes)]
        return node if node.is_serving and node not in self._busy else None

    async def start(self, node: Node) -> None:
        """Start a broker, again and again until it does."""
        while not node.is_serving:
            with suppress(CatalogError, StorageError):
                await node.start()
                return
            await asyncio.sleep(_START_AGAIN_SECONDS)

    async def replace(self, node: Node, end: Callable[[], Awaitable[object]]) -> None:
        """End a broker in some way, and start it again."""
        self._busy.add(node)
        await end()
        await self.start(node)
        self._busy.discard(node)


# -- brokers -----------------------------------------------------------------------------------------------------------


async def _kill(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:

        async def end() -> None:
            node.kill()
            await asyncio.sleep(fault.for_ms / 300)

        await stage.replace(node, end)


async def _power_cut(stage: ClusterStage, fault: Fault) -> None:
    """The machine is gone: nobody hears of it, and half of the time the network does not know it any more either.

    Sometimes another machine with an empty disk takes its place.
    """
    node = stage.node(fault)
    if node is not None:

        async def end() -> None:
            node.cut_power(vanishes=fault.for_ms % 2 == 0)
            if fault.for_ms % 3 == 0:
                stage.world.wipe(node)
            await asyncio.sleep(fault.for_ms / 150)

        await stage.replace(node, end)


async def _stop(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:

        async def end() -> None:
            await node.stop()
            await asyncio.sleep(fault.for_ms / 500)

        await stage.replace(node, end)


async def _drain(stage: ClusterStage, fault: Fault) -> None:
    """An administrator has a broker hand over and stop."""
    node = stage.node(fault)
    if node is None:
        return
    stage.world.fault("drain", node.name)

    async def end() -> None:
        try:
            stage.world.database.drain(node.node_id, even_the_last=True)
        except CatalogError:
            return  # others have ended its lease, or it has never had one: it does not hear of it
        while node.is_serving:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    await stage.replace(node, end)


async def _rolling_restart(stage: ClusterStage, fault: Fault) -> None:
    """Each broker in turn, in an order of the seed's, with other configs than before."""
    chance = random.Random(f"restarts of {fault}")
    nodes = list(stage.world.nodes)
    chance.shuffle(nodes)
    stage.world.fault("rolling-restart", " ".join(node.name for node in nodes))
    for node in nodes:
        if node.is_serving and node not in stage._busy:
            before = dict(node.configs)
            node.configs = {**before, **chance.choice(_UPGRADES)}
            await stage.replace(node, node.stop)
            node.configs = before


async def _pause(stage: ClusterStage, fault: Fault) -> None:
    """For less or for more than a lease."""
    node = stage.node(fault)
    if node is not None:
        await _stand_still(node, fault.for_ms / 120)


async def _stand_still(node: Node, seconds: float) -> None:
    process = node.process
    node.pause()
    await asyncio.sleep(seconds)
    if not process.is_dead and node.process is process:
        node.resume()


async def _zombie(stage: ClusterStage, fault: Fault) -> None:
    """A broker stands still in the middle of something, and goes on when others lead what it led.

    It has sent a commit that is not carried out yet, or one that is and of which it does not know.
    """
    node = stage.node(fault)
    if node is None:
        return
    process = node.process
    server = stage.world.catalog_server
    moment = "on_carried_out" if fault.for_ms % 2 else "on_request"
    reached: asyncio.Future[None] = stage.world.loop.create_future()

    def look(who: Process, what: str) -> None:
        if who is process and what == "commit" and not reached.done():
            reached.set_result(None)
            stage.world.loop.pause(process)

    setattr(server, moment, look)
    await asyncio.wait([reached], timeout=_HIT_SECONDS)
    setattr(server, moment, None)
    if reached.done():
        stage.world.fault("zombie", f"{node.name} at {moment}")
        await asyncio.sleep(LEASE_SECONDS + fault.for_ms / 300)
        if not process.is_dead:
            stage.world.loop.resume(process)


async def _clock_jump(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:
        node.jump_clock(fault.size)


# -- the network -------------------------------------------------------------------------------------------------------


async def _part(stage: ClusterStage, fault: Fault, machines: Sequence[str], others: Sequence[str], kind: str) -> None:
    stage.world.fault(kind, f"{' '.join(machines)} from {' '.join(others)}")
    stage.world.network.part_between(machines, others)
    await asyncio.sleep(fault.for_ms / 120)
    stage.world.network.heal(machines, others)


async def _part_from_catalog(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:
        await _part(stage, fault, [node.name], ["catalog"], "part-from-catalog")


async def _part_from_store(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:
        await _part(stage, fault, [node.name], ["store"], "part-from-store")


async def _part_brokers(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    if node is not None:
        others = [each.name for each in stage.world.nodes if each is not node]
        await _part(stage, fault, [node.name], others, "part-brokers")


async def _part_clients(stage: ClusterStage, fault: Fault) -> None:
    """Some programs cannot reach one broker."""
    node = stage.node(fault)
    names = [name for name in stage.crowd.names() if stage.world.chance.random() < 0.5]
    if node is not None and names:
        await _part(stage, fault, [node.name], names, "part-clients")


async def _cut_off(stage: ClusterStage, fault: Fault) -> None:
    """First the other brokers cannot reach a coordinator of transactions, then it cannot reach the database either.

    What it has sent before its lease ended arrives when others lead what it led.
    """
    catalog = stage.world.database.catalog
    ids = {row.topic_id for row in catalog.topics() if row.name == TRANSACTIONS_TOPIC}
    coordinators = sorted({row.leader for row in catalog.partitions() if row.topic_id in ids})
    if coordinators:  # else there are no transactions, and it may be any broker
        fault = fault._replace(size=coordinators[fault.size % len(coordinators)] - 1)
    node = stage.node(fault)
    if node is None:
        return
    network, others = stage.world.network, [each.name for each in stage.world.nodes if each is not node]
    stage.world.fault("coordinator-cut-off", f"{node.name}")
    network.part_between([node.name], others)
    await asyncio.sleep(0.3 + fault.for_ms / 1000)
    network.part_between([node.name], ["catalog"])
    await asyncio.sleep(2 * LEASE_SECONDS + fault.for_ms / 500)
    network.heal([node.name], [*others, "catalog"])


async def _cut(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    for connection in stage.world.network.of(node.process) if node is not None else ():
        if stage.world.chance.random() < 0.6:
            stage.world.fault("cut", connection.client.name if connection.client else "")
            connection.cut()


async def _half_open(stage: ClusterStage, fault: Fault) -> None:
    node = stage.node(fault)
    for connection in stage.world.network.of(node.process) if node is not None else ():
        if stage.world.chance.random() < 0.4:
            stage.world.fault("half-open", connection.client.name if connection.client else "")
            connection.fall_silent()


async def _slow_network(stage: ClusterStage, fault: Fault) -> None:
    stage.world.fault("slow-network")
    await stage.slow_down(stage.world.network, (0.001, 0.2), fault.for_ms / 1000)


# -- the database and the store ----------------------------------------------------------------------------------------


async def _away(stage: ClusterStage, fault: Fault, server: Server) -> None:
    stage.world.fault(f"{server.name}-away")
    server.is_away = True
    await asyncio.sleep(fault.for_ms / 200)
    server.is_away = False
    if server is stage.world.catalog_server:
        stage.world.database.restarted()


async def _slow(stage: ClusterStage, fault: Fault, server: Server) -> None:
    stage.world.fault(f"{server.name}-slow")
    await stage.slow_down(server, (0.01, 0.2 + fault.for_ms / 1000), fault.for_ms / 300)


async def _refuses(stage: ClusterStage, fault: Fault, server: Server) -> None:
    stage.world.fault(f"{server.name}-refuses")
    server.refusals += 1 + fault.for_ms % 5


async def _loses_answers(stage: ClusterStage, fault: Fault, server: Server) -> None:
    """What was requested is done, and the connection is lost."""
    stage.world.fault(f"{server.name}-loses-answers")
    server.lost_answers += 1 + fault.for_ms % 5


def _of(server: str, fault: Callable[[ClusterStage, Fault, Server], Awaitable[None]]) -> Carry:
    return lambda stage, planned: fault(stage, planned, getattr(stage.world, f"{server}_server"))


# -- programs and administrators ---------------------------------------------------------------------------------------


async def _move_leaders(stage: ClusterStage, fault: Fault) -> None:
    """An administrator has some partitions led by others."""
    world = stage.world
    chance = random.Random(f"moves of {fault}")
    names = {row.topic_id: row.name for row in world.database.catalog.topics() if row.name in stage.topics}
    topics: dict[str, list[m.AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for row in world.database.catalog.partitions():
        if row.topic_id in names and chance.random() < 0.5:
            replicas = [node.node_id for node in world.nodes]
            chance.shuffle(replicas)
            moved = m.AlterPartitionReassignmentsRequest.ReassignablePartition(row.partition_index, replicas)
            topics.setdefault(names[row.topic_id], []).append(moved)
    request = m.AlterPartitionReassignmentsRequest(
        topics=[m.AlterPartitionReassignmentsRequest.ReassignableTopic(name, moved) for name, moved in topics.items()]
    )
    election = m.ElectLeadersRequest(
        topic_partitions=[
            m.ElectLeadersRequest.TopicPartitions(name, [each.partition_index for each in moved])
            for name, moved in topics.items()
        ]
    )
    node = stage.node(fault)
    if node is None or not topics:
        return
    world.fault("move-leaders", f"of {', '.join(topics)}")

    async def administrate() -> None:
        with suppress(Lost):
            client = await RawClient.connect(world, "administrator", address=node.address)
            await client.ask(request, m.AlterPartitionReassignmentsResponse)
            await client.ask(election, m.ElectLeadersResponse)
            client.close()

    await world.spawn("administrator", administrate).task


async def _kill_client(stage: ClusterStage, fault: Fault) -> None:
    names = [name for name in stage.crowd.names() if not stage.crowd.process(name).is_dead]
    if names:
        name = stage.world.chance.choice(names)
        silently = fault.size > 0
        stage.world.fault("kill-client", f"{name}{' with its machine' if silently else ''}")
        stage.world.kill(stage.crowd.process(name), silently=silently)
        if stage.crowd.on_killed is not None:
            stage.crowd.on_killed(name)
        await asyncio.sleep(fault.for_ms / 500)
        stage.crowd.restart(name)


async def _pause_client(stage: ClusterStage, fault: Fault) -> None:
    names = stage.crowd.names()
    if names:
        name = stage.world.chance.choice(names)
        stage.world.fault("pause-client", name)
        process = stage.crowd.process(name)
        stage.world.loop.pause(process)
        await asyncio.sleep(fault.for_ms / 150)
        if not process.is_dead:
            stage.world.loop.resume(process)


Carry = Callable[[ClusterStage, Fault], Awaitable[None]]
KINDS: dict[str, Carry] = {
    "kill": _kill,
    "power-cut": _power_cut,
    "clean-stop": _stop,
    "drain": _drain,
    "rolling-restart": _rolling_restart,
    "pause": _pause,
    "zombie": _zombie,
    "clock-jump": _clock_jump,
    "part-from-catalog": _part_from_catalog,
    "part-from-store": _part_from_store,
    "part-brokers": _part_brokers,
    "part-clients": _part_clients,
    "coordinator-cut-off": _cut_off,
    "cut": _cut,
    "half-open": _half_open,
    "slow-network": _slow_network,
    "catalog-away": _of("catalog", _away),
    "catalog-slow": _of("catalog", _slow),
    "catalog-refuses": _of("catalog", _refuses),
    "catalog-loses-answers": _of("catalog", _loses_answers),
    "store-away": _of("store", _away),
    "store-slow": _of("store", _slow),
    "store-refuses": _of("store", _refuses),
    "store-loses-answers": _of("store", _loses_answers),
    "move-leaders": _move_leaders,
    "kill-client": _kill_client,
    "pause-client": _pause_client,
}
EVERYWHERE = tuple(kind for kind in KINDS if kind != "coordinator-cut-off")
