"""Threads of a simulated process: they wait in the world's time, and die and stand still with their process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from penstock.simulation.loop import Process, SimulatedLoop
from penstock.simulation.strands import CannotWait, SimulatedThreads
from penstock.threads import Queue


class Stage:
    """A loop, and a process with threads in it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop(random.Random(seed))
        self.process = Process("a", has_threads=True)
        self.threads = SimulatedThreads(self.loop.strands, self.process)
        self.story: list[tuple[str, float]] = []

    def tell(self, what: str) -> None:
        self.story.append((what, round(self.loop.time(), 2)))

    def soon(self, callback: Callable[[], object], seconds: float = 0.0) -> None:
        """Run a callback in the event loop of the process."""
        self.loop.call_later(seconds, callback, context=self.process.context)

    def run(self, seconds: float = 100.0) -> list[tuple[str, float]]:
        try:
            self.loop.run_until_complete(asyncio.sleep(seconds))
        finally:
            self.loop.bury_tasks()
            self.loop.close()
        return self.story


def test_a_thread_sleeps_in_the_time_of_the_world() -> None:
    stage = Stage()

    def work() -> None:
        stage.threads.sleep(60)
        stage.tell("awake")

    stage.soon(lambda: stage.threads.start("sleeper", work))
    assert stage.run() == [("awake", 60.0)]


def test_an_event_loop_that_waits_runs_no_callbacks_and_other_processes_go_on() -> None:
    stage = Stage()

    async def task() -> None:
        stage.tell("begins")
        stage.threads.sleep(5)
        stage.tell("ends")

    async def other() -> None:
        await asyncio.sleep(2)
        stage.tell("other")

    stage.soon(lambda: stage.loop.create_task(task()))
    stage.soon(lambda: stage.tell("held"), 1)
    stage.loop.create_task(other(), context=Process("b").context)
    assert stage.run() == [("begins", 0.0), ("other", 2.0), ("ends", 5.0), ("held", 5.0)]


def test_a_condition_wakes_who_waits_for_it_and_lets_go_of_its_lock_meanwhile() -> None:
    stage = Stage()
    changed = stage.threads.condition()

    def wait() -> None:
        with changed:
            stage.tell("notified" if changed.wait(50) else "not notified")
            stage.tell("notified" if changed.wait(3) else "not notified")

    def notify() -> None:
        with changed:
            changed.notify_all()

    stage.soon(lambda: stage.threads.start("waiter", wait))
    stage.soon(notify, 7)
    assert stage.run() == [("notified", 7.0), ("not notified", 10.0)]


def test_a_lock_is_held_by_one_thread_at_a_time() -> None:
    stage = Stage()
    lock, inside = stage.threads.lock(), 0

    def work() -> None:
        nonlocal inside
        with lock:
            inside += 1
            assert inside == 1
            stage.threads.sleep(1)
            inside -= 1
        stage.tell("done")

    for _ in range(3):
        stage.soon(lambda: stage.threads.start("worker", work))
    assert [what for what, _ in stage.run()] == ["done"] * 3


def test_a_pool_runs_so_many_at_a_time_and_hands_back_results_and_failures() -> None:
    stage = Stage()

    def work(number: int) -> int:
        stage.threads.sleep(1)
        return 10 // number

    def submit() -> None:
        pool = stage.threads.pool("pool", 2)
        results = [pool.submit(work, number) for number in (1, 2, 5, 0)]
        stage.tell(str([each.result() for each in results[:3]]))
        with pytest.raises(ZeroDivisionError):
            results[3].result()
        pool.shutdown()
        stage.tell("shut down")

    stage.soon(submit)
    assert stage.run() == [("[10, 5, 2]", 2.0), ("shut down", 2.0)]


def test_a_thread_is_joined_and_a_queue_hands_over() -> None:
    stage = Stage()
    queue: Queue[int] = stage.threads.queue()

    def main() -> None:
        thread = stage.threads.start("taker", lambda: stage.tell(str(queue.get())))
        thread.join(1)
        assert thread.is_alive()
        queue.put(7)
        thread.join()
        stage.tell("joined")

    stage.soon(main)
    assert stage.run() == [("7", 1.0), ("joined", 1.0)]


def test_the_threads_of_a_killed_process_do_nothing_more_and_those_of_a_paused_one_wait() -> None:
    stage = Stage()

    def work() -> None:
        try:
            for number in range(10):
                stage.threads.sleep(1)
                stage.tell(str(number))
        finally:
            stage.tell("finally")

    stage.soon(lambda: stage.threads.start("worker", work))
    stage.loop.call_at(2.5, stage.loop.pause, stage.process)
    stage.loop.call_at(8.5, stage.loop.resume, stage.process)
    stage.loop.call_at(10, stage.loop.kill, stage.process)
    said = stage.run()
    assert said[:-1] == [("0", 1.0), ("1", 2.0), ("2", 8.5), ("3", 9.5)]
    assert said[-1] == ("finally", 100.0)  # when the world is over


def test_work_in_a_thread_may_wait_and_its_result_comes_to_the_event_loop() -> None:
    stage = Stage()

    def work() -> str:
        stage.threads.sleep(3)
        return "result"

    async def main() -> None:
        stage.tell(await asyncio.get_running_loop().run_in_executor(None, work))

    stage.soon(lambda: stage.loop.create_task(main()))
    assert stage.run() == [("result", 3.0)]


def test_what_belongs_to_no_process_with_threads_cannot_wait() -> None:
    stage = Stage()
    with pytest.raises(CannotWait):
        stage.threads.sleep(1)
    stage.loop.close()


def test_the_same_seed_runs_threads_in_the_same_order_and_another_one_in_another() -> None:
    def order(seed: int) -> list[str]:
        stage = Stage(seed)
        for name in "abcdefgh":
            stage.soon(lambda name=name: stage.threads.start(name, lambda: stage.tell(name)))  # type: ignore[misc]
        return [what for what, _ in stage.run()]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_process_that_computes_reads_lines_answers_and_ends_with_its_code() -> None:
    stage = Stage()

    def main() -> None:
        helper = stage.threads.helper("tests.simulation.echo")
        helper.send(b"hello")
        helper.send(b"")
        stage.tell(b"".join(helper.answers()).decode())
        stage.tell(str(helper.poll()))
        with pytest.raises(BrokenPipeError):
            helper.send(b"more")

    stage.soon(main)
    assert [what for what, _ in stage.run()] == ["echo of hello", "0"]


def test_a_process_that_was_killed_answers_no_more() -> None:
    stage = Stage()

    def main() -> None:
        helper = stage.threads.helper("tests.simulation.echo")
        helper.send(b"hello")
        helper.kill(1)
        stage.tell(f"{list(helper.answers())} {helper.poll()}")

    stage.soon(main)
    assert [what for what, _ in stage.run()] == ["[] -9"]
