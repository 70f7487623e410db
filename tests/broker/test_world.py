"""The real world: its clocks, its chance, and in which thread things happen."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from penstock.broker.world import LoopWorld, SteadyTime, WaitsFor
from penstock.simulation import Simulation

WAIT_SECONDS = 30


@pytest.fixture
async def world() -> LoopWorld:
    return LoopWorld(asyncio.get_running_loop())


async def test_the_wall_clock_is_in_milliseconds(world: LoopWorld) -> None:
    before = time.time()
    now_ms = world.now_ms()
    assert int(before * 1000) <= now_ms <= time.time() * 1000


def test_steady_time_begins_with_the_wall_clock_and_does_not_follow_when_that_is_set() -> None:
    world = Simulation(1)

    async def main() -> None:
        await world.start_broker()
        clock = world.broker.parts.world
        steady = SteadyTime(clock)
        assert steady.now_ms() == clock.now_ms()
        world.jump_clock(90_000)
        await asyncio.sleep(1)
        assert steady.now_ms() == clock.now_ms() - 90_000

    world.run(main())


async def test_timers_run_in_the_order_of_their_times_unless_they_are_cancelled(world: LoopWorld) -> None:
    order: list[str] = []
    done = asyncio.Event()
    world.call_later(0.02, done.set)
    world.call_later(0.01, order.append, "later")
    world.call_later(0.005, order.append, "never").cancel()
    world.call_soon(order.append, "soon")
    assert order == []
    await asyncio.wait_for(done.wait(), WAIT_SECONDS)
    assert order == ["soon", "later"]


async def test_work_in_a_thread_leaves_the_loop_to_others(world: LoopWorld) -> None:
    released = threading.Event()

    def work() -> int:
        assert released.wait(WAIT_SECONDS)
        return threading.get_ident()

    future = world.in_thread(work)
    world.call_soon(released.set)
    assert await asyncio.wait_for(future, WAIT_SECONDS) != threading.get_ident()


@pytest.mark.parametrize("hanging", [WaitsFor.STORE, WaitsFor.SERVER])
async def test_work_that_hangs_holds_up_only_what_waits_for_the_same(world: LoopWorld, hanging: WaitsFor) -> None:
    released = threading.Event()
    stuck = [world.in_thread(lambda: released.wait(WAIT_SECONDS), hanging) for _ in range(100)]
    for each in set(WaitsFor) - {hanging}:
        assert await asyncio.wait_for(world.in_thread(threading.get_ident, each), WAIT_SECONDS)
    assert not any(each.done() for each in stuck)
    released.set()
    assert all(await asyncio.wait_for(asyncio.gather(*stuck), WAIT_SECONDS))


async def test_a_thread_calls_back_into_the_loop(world: LoopWorld) -> None:
    called: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    world.in_thread(lambda: world.call_soon_threadsafe(lambda: called.set_result(threading.get_ident())))
    assert await asyncio.wait_for(called, WAIT_SECONDS) == threading.get_ident()


async def test_a_coroutine_runs_beside_everything_else_and_can_be_cancelled(world: LoopWorld) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = world.spawn(work())
    await asyncio.sleep(0)
    assert not ended.is_set()
    task.cancel()
    await asyncio.wait_for(ended.wait(), WAIT_SECONDS)


async def test_ids_are_different_each_time_and_never_the_one_that_stands_for_none(world: LoopWorld) -> None:
    ids = {world.new_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(each) for each in ids} == {16}
    assert bytes(16) not in ids


async def test_numbers_by_chance_stay_below_their_upper_bound(world: LoopWorld) -> None:
    assert {world.random_between(3, 5) for _ in range(200)} == {3, 4}
