"""Threads of the operating system, as they are handed to whatever waits beside the event loop."""

from __future__ import annotations

import threading

import pytest

from penstock.threads import THREADS, Queue


def test_a_started_thread_has_its_name_and_does_not_keep_the_process_from_ending() -> None:
    seen: list[threading.Thread] = []
    thread = THREADS.start("helper", lambda: seen.append(threading.current_thread()))
    thread.join(10)
    assert not thread.is_alive()
    assert [(each.name, each.daemon) for each in seen] == [("helper", True)]


def test_a_pool_hands_back_results_and_failures() -> None:
    pool = THREADS.pool("workers", 2)
    assert pool.submit(int, "7").result() == 7
    with pytest.raises(ValueError, match="seven"):
        pool.submit(int, "seven").result()
    pool.shutdown()


def test_what_is_put_into_a_queue_is_taken_by_a_thread_that_waits() -> None:
    queue: Queue[str] = THREADS.queue()
    taken: list[str] = []
    thread = THREADS.start("taker", lambda: taken.append(queue.get()))
    queue.put("parcel")
    thread.join(10)
    assert taken == ["parcel"]
    assert queue.qsize() == 0


def test_waits_end_when_somebody_notifies_and_say_so_when_nobody_does() -> None:
    changed, has_ended = THREADS.condition(), THREADS.event()

    def notify() -> None:
        with changed:
            changed.notify_all()
        has_ended.set()

    with changed:
        THREADS.start("notifier", notify)
        assert changed.wait(10)
    assert has_ended.wait(10)
    with changed:
        assert not changed.wait(0.001)


def test_a_module_runs_in_a_process_of_its_own_and_is_killed() -> None:
    helper = THREADS.helper("penstock.log.cleaner.process")
    helper.send(b"/there/is/no/such/job")
    answer = next(helper.answers())
    assert b"FileNotFoundError" in answer
    assert helper.poll() is None
    helper.kill(10)
    assert helper.poll() not in (None, 0)
    helper.release()
