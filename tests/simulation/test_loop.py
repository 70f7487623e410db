"""The loop with virtual time: order, pauses, kills, and the end of everything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TypeVar

import pytest

from penstock.simulation.loop import Process, SimulatedLoop, Stuck, current_process

T = TypeVar("T")


def run(main: Coroutine[object, object, T], loop: SimulatedLoop | None = None) -> T:
    loop = loop or SimulatedLoop(random.Random(1))
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def test_a_day_passes_without_waiting() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(main()) == 86_400


def test_timers_of_the_same_time_run_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        ran: list[int] = []
        for number in range(20):
            asyncio.get_running_loop().call_at(1.0, ran.append, number)
        await asyncio.sleep(1)
        return ran

    assert run(main()) == list(range(20))


def test_timeouts_and_cancellation_work_as_in_asyncio() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return asyncio.get_running_loop().time()

    assert run(main()) == 5


def test_the_work_of_a_thread_is_done_later_and_its_failure_is_raised() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        return loop.time()

    assert run(main()) > 0


def test_a_world_in_which_nothing_can_happen_any_more_is_stuck() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="nothing is left"):
        run(main())


def test_a_world_in_which_time_does_not_pass_is_stuck() -> None:
    async def main() -> None:
        def again() -> None:
            asyncio.get_running_loop().call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="no time has passed"):
        run(main())


async def count(ticks: list[float]) -> None:
    try:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())
    finally:
        ticks.append(-1)


def test_what_a_process_sets_off_belongs_to_it() -> None:
    async def main() -> list[str]:
        names: list[str] = []

        async def child() -> None:
            process = current_process()
            names.append(process.name if process else "")

        async def parent() -> None:
            await asyncio.get_running_loop().create_task(child())
            asyncio.get_running_loop().call_soon(lambda: names.append(str(current_process())))

        await asyncio.get_running_loop().create_task(parent(), context=Process("a").context)
        await asyncio.sleep(0)
        return names

    assert run(main()) == ["a", "Process('a')"]


def test_a_paused_process_goes_on_where_it_was() -> None:
    loop, process = SimulatedLoop(random.Random(1)), Process("a")
    ticks: list[float] = []

    async def main() -> None:
        loop.create_task(count(ticks), context=process.context)
        await asyncio.sleep(2.5)
        loop.pause(process)
        await asyncio.sleep(10)
        assert ticks == [1, 2]
        loop.resume(process)
        await asyncio.sleep(1.2)

    run(main(), loop)
    assert ticks[:4] == [1, 2, 12.5, 13.5]


def test_a_killed_process_never_runs_again_not_even_to_clean_up() -> None:
    loop, process = SimulatedLoop(random.Random(1)), Process("a")
    ticks: list[float] = []

    async def main() -> None:
        loop.create_task(count(ticks), context=process.context)
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(10)

    run(main(), loop)
    assert ticks == [1, 2]
