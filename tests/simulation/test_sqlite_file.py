"""A catalog in SQLite keeps what it has promised, and no half of what was under way."""

from __future__ import annotations

import asyncio

import pytest

from penstock.catalog.contract import CatalogError, TopicRow
from penstock.simulation.machine import WholeMachine


async def _crash(world: WholeMachine, step: int, *, is_power_cut: bool) -> list[TopicRow]:
    """Create topics until the broker is ended at some statement, start it again, and return what it has."""
    await world.start()
    [node] = world.nodes
    reached = world.loop.create_future()
    steps = 0

    def stepped() -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            reached.set_result(None)

    async def create() -> None:
        for number in range(10):
            node.broker.parts.topics.create(f"t-{number}", 1, {"retention.ms": "1000"})
            world.tell("creator", f"t-{number}")
            await asyncio.sleep(0)

    world.catalog_file.on_step = stepped
    world.loop.create_task(create(), context=node.process.context)
    await reached
    node.cut_power() if is_power_cut else node.kill()
    await world.start()
    return node.broker.parts.catalog.topics()


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_change_is_there_as_a_whole_or_not_at_all(is_power_cut: bool) -> None:
    counts: set[int] = set()
    for step in range(1, 16):
        world = WholeMachine(step)
        rows = world.run(_crash(world, step, is_power_cut=is_power_cut))
        assert all(row.configs == {"retention.ms": "1000"} for row in rows)
        confirmed = [what for _, who, what in world.story if who == "creator"]
        found = {row.name for row in rows}
        assert found >= set(confirmed)
        assert len(found) <= len(confirmed) + 1
        counts.add(len(found))
        if world.figures.get("catalog changes cut off"):
            counts.add(-1)
    assert -1 in counts, "nothing was cut off"
    assert len(counts) > 2


def test_a_full_disk_refuses_changes_and_nothing_else() -> None:
    world = WholeMachine(1)

    async def fill() -> None:
        catalog = world.catalog
        world.disk.is_full = True
        with pytest.raises(CatalogError, match="full"):
            catalog.change_features(lambda levels: {"transaction.version": 1})
        assert catalog.features() == {}
        world.disk.is_full = False
        catalog.change_features(lambda levels: {"transaction.version": 1})
        assert catalog.features() == {"transaction.version": 1}

    world.run(fill())


def test_what_was_committed_without_a_sync_may_go_with_the_power() -> None:
    lost = 0
    for seed in range(20):
        world = WholeMachine(seed)

        async def change() -> None:
            world.catalog.change_features(lambda levels: {"transaction.version": 1})  # noqa: B023
            for connection in world.catalog_file.connections:  # noqa: B023
                connection.execute("PRAGMA synchronous = NORMAL")
            world.catalog.change_features(lambda levels: {"transaction.version": 2})  # noqa: B023
            world.catalog_file.power_cut()  # noqa: B023
            world.catalog_file.leave()  # noqa: B023

        world.run(change())
        lost += world.figures.get("catalog changes lost", 0)
    assert 0 < lost < 20
