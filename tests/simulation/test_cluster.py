"""Several brokers in one world: leaders that are taken over, brokers that come back, and the same again for a seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.client.admin import Admin
from penstock.client.producer import Producer
from penstock.simulation.cluster import ClusterSimulation
from penstock.simulation.node import Node
from tests.simulation.cluster_faults import KINDS
from tests.simulation.faults import Fault
from tests.simulation.scenario import run as simulate
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.stores import STORES, settle, watch

PARTITIONS = 3
RECORDS = 90
_OF_THE_STORE = (
    "wal objects put",
    "segment objects put",
    "segment objects read",
    "segment objects read from the beginning",
    "wal objects read from the beginning",
    "objects removed",
    "orphans removed",
    "listings",
)


async def make_topic(world: ClusterSimulation) -> None:
    async with Admin(bootstrap_servers=world.bootstrap) as admin:
        await admin.create_topic("t", PARTITIONS)


async def produce(world: ClusterSimulation) -> None:
    settings: dict[str, Any] = {"delivery_timeout_ms": 120_000, "request_timeout_ms": 2_000}
    async with Producer(bootstrap_servers=world.bootstrap, **settings) as producer:
        for number in range(RECORDS):
            record = await producer.send_and_wait("t", str(number), partition=number % PARTITIONS)
            world.tell("producer", f"{number} at {record.partition}-{record.offset}")


def leaders(world: ClusterSimulation) -> set[int]:
    return {row.leader for row in world.database.catalog.partitions()}


Happen = Callable[[ClusterSimulation, Node], Coroutine[object, object, None]]


async def kill(world: ClusterSimulation, node: Node) -> None:
    node.kill()
    await asyncio.sleep(3)
    assert node.node_id not in leaders(world)
    await node.start()


async def vanish(world: ClusterSimulation, node: Node) -> None:
    node.cut_power(vanishes=True)
    await asyncio.sleep(1)
    assert node.node_id in leaders(world), "nobody can tell that it is gone"
    await asyncio.sleep(9)
    assert node.node_id not in leaders(world), "its lease is over"
    await node.start()


async def stop(world: ClusterSimulation, node: Node) -> None:
    await node.stop()
    assert node.node_id not in leaders(world)
    await node.start()


async def pause(world: ClusterSimulation, node: Node) -> None:
    node.pause()
    await asyncio.sleep(10)
    assert node.node_id not in leaders(world)
    node.resume()


async def part_from_catalog(world: ClusterSimulation, node: Node) -> None:
    world.network.part_between([node.name], ["catalog"])
    await asyncio.sleep(10)
    assert node.node_id not in leaders(world)
    world.network.heal()


async def part_from_brokers(world: ClusterSimulation, node: Node) -> None:
    world.network.part_between([node.name], [each.name for each in world.nodes if each is not node])
    await asyncio.sleep(10)
    assert node.node_id in leaders(world)
    world.network.heal()


async def no_store(world: ClusterSimulation, node: Node) -> None:
    world.store_server.is_away = True
    await asyncio.sleep(10)
    world.store_server.is_away = False


async def no_catalog(world: ClusterSimulation, node: Node) -> None:
    world.catalog_server.is_away = True
    await asyncio.sleep(10)
    world.catalog_server.is_away = False
    world.database.restarted()


def run(happen: Happen, seed: int) -> ClusterSimulation:
    world = ClusterSimulation(seed)

    async def main() -> None:
        await world.start()
        await world.spawn("admin", make_topic, world).task
        producing = world.spawn("producer", produce, world)
        await asyncio.sleep(0.2)
        await happen(world, world.nodes[seed % 3])
        await producing.task
        await asyncio.sleep(20)
        assert leaders(world) == {1, 2, 3}, "leaders are balanced"

    world.run(main())
    return world


@pytest.mark.parametrize(
    "happen", [kill, vanish, stop, pause, part_from_catalog, part_from_brokers, no_store, no_catalog]
)
def test_a_producer_lives_through_it_and_leaders_are_balanced_afterwards(happen: Happen) -> None:
    for seed in range(3):
        world = run(happen, seed)
        said = [what for _, who, what in world.story if who == "producer"]
        assert said == [f"{number} at {number % PARTITIONS}-{number // PARTITIONS}" for number in range(RECORDS)]
        assert not world.broker_failures


def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    assert run(kill, 1).trace == run(kill, 1).trace
    assert run(kill, 1).trace != run(kill, 4).trace


def test_a_broker_comes_back_with_an_empty_disk() -> None:
    world = ClusterSimulation(1)

    async def main() -> None:
        await world.start()
        await world.spawn("admin", make_topic, world).task
        await world.spawn("producer", produce, world).task
        for node in world.nodes:
            node.cut_power()
            world.wipe(node)
        await asyncio.sleep(5)  # until then their leases hold, and another machine cannot have their node ids
        for node in world.nodes:
            await node.start()
        await world.spawn("producer again", produce, world).task

    world.run(main())
    said = [what for _, who, what in world.story if who == "producer"]
    assert said[RECORDS:] == [f"{n} at {n % PARTITIONS}-{(n + RECORDS) // PARTITIONS}" for n in range(RECORDS)]


def test_nothing_is_left_of_a_world() -> None:
    world = run(kill, 1)
    assert not world.folder.exists()


def test_records_go_into_the_store_and_come_back_out_of_it() -> None:
    """What is uploaded becomes segments, which whoever takes over reads, and what nothing names is removed."""
    happened = Counter[str]()
    for seed in range(40):
        happened.update(simulate(SCENARIOS["cluster-streams"], seed).world.figures)
        if all(happened[each] for each in _OF_THE_STORE):
            break
    assert not [each for each in _OF_THE_STORE if not happened[each]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_of_a_cluster_happens(kind: str) -> None:
    """Each to all brokers, one after the other, as some of them may have nobody to happen to."""
    plan = [Fault(1500 * number, kind, 300 + number, number) for number in range(1, 4)]
    scenario = "cluster-groups" if "client" in kind or kind == "zombie" else "cluster-zombies"
    outcome = simulate(SCENARIOS[scenario], 0, plan)
    assert outcome.world.faults[kind]
    assert not outcome.findings, outcome.story()


def test_what_is_wrong_with_a_store_is_found() -> None:
    """An object that the commit log names is lost, one is damaged, and one is there that nobody has named."""
    world = ClusterSimulation(1, STORES[1])
    found: list[str] = []

    def find(check: str, text: str) -> None:
        found.append(check)

    async def main() -> None:
        watch(world, find)
        await world.start()
        await world.spawn("admin", make_topic, world).task
        await world.spawn("producer", produce, world).task
        await settle(world, find)
        assert not found
        lost, damaged, *_ = sorted(world.database.commits.named())
        world.bucket.delete([lost])
        world.bucket.rot(damaged, 80)
        world.bucket.put("cluster/wal/1-9-x/1", b"")
        await settle(world, find)

    world.run(main())
    assert found == ["deleted-while-named", "left-over", "store", "store"]
