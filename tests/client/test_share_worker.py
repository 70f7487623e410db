"""The loop of `ShareConsumer.run` on its own: a queue that is a list, and a note of every decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest

from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_worker import Reject, Worker
from penstock.client.types import ConsumerRecord
from penstock.wire.errors import KafkaError, NotCoordinator

Record = ConsumerRecord[bytes, bytes]
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Queue:
    """What a worker takes from and tells its decisions to. When it is empty it says stop."""

    def __init__(self, count: int, at_a_time: int | None = None) -> None:
        self.records: list[Record] = [ConsumerRecord("t", 0, n, 0, 0, None, b"%d" % n, ()) for n in range(count)]
        self.at_a_time = at_a_time  # more or fewer than asked for, as a fetch may bring
        self.stop = asyncio.Event()
        self.asked: list[tuple[int, bool]] = []
        self.decisions: dict[int, int] = {}
        self.sent: list[dict[int, int]] = []
        self.failure: KafkaError | None = None

    async def take(self, limit: int, is_busy: bool) -> list[Record]:
        self.asked.append((limit, is_busy))
        count = limit if self.at_a_time is None else self.at_a_time
        taken, self.records = self.records[:count], self.records[count:]
        if not taken:
            self.stop.set()
        await asyncio.sleep(0)
        return taken

    def decide(self, record: Record, kind: int) -> None:
        self.decisions[record.offset] = kind

    async def send(self) -> None:
        decided = {offset: kind for offset, kind in self.decisions.items() if not self.was_sent(offset)}
        if self.failure is not None:
            raise self.failure
        if decided:
            self.sent.append(decided)

    def was_sent(self, offset: int) -> bool:
        return any(offset in sent for sent in self.sent)

    def worker(
        self, handler: Callable[[Record], Awaitable[object] | object], concurrency: int = 1
    ) -> Worker[bytes, bytes]:
        return Worker(
            handler,
            concurrency,
            self.take,
            self.decide,
            lambda: any(not self.was_sent(offset) for offset in self.decisions),
            self.send,
            nullcontext,
        )


async def test_how_a_handler_ends_decides_about_its_record(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue(3)

    async def handle(record: Record) -> None:
        if record.offset == 1:
            raise Reject("unreadable")
        if record.offset == 2:
            raise ValueError("a bad day")

    await queue.worker(handle).run(queue.stop)
    assert queue.decisions == {0: ACCEPT, 1: REJECT, 2: RELEASE}
    assert "a bad day" in caplog.text
    assert all(queue.was_sent(offset) for offset in range(3))


async def test_a_handler_need_not_be_a_coroutine() -> None:
    queue = Queue(2)
    seen: list[int] = []
    await queue.worker(lambda record: seen.append(record.offset)).run(queue.stop)
    assert seen == [0, 1]
    assert queue.decisions == {0: ACCEPT, 1: ACCEPT}


async def test_no_more_is_asked_for_than_there_are_handlers_free() -> None:
    queue = Queue(4)
    gate = asyncio.Event()
    busy = 0

    async def handle(record: Record) -> None:
        nonlocal busy
        busy += 1
        if busy == 3:
            gate.set()
        if record.offset < 3:
            await gate.wait()

    await queue.worker(handle, concurrency=3).run(queue.stop)
    assert queue.asked[0] == (3, False)
    assert all(0 < limit <= 3 for limit, _ in queue.asked)
    assert queue.decisions == dict.fromkeys(range(4), ACCEPT)


async def test_a_take_that_runs_beside_handlers_is_told_so() -> None:
    queue = Queue(2, at_a_time=1)
    gate = asyncio.Event()

    async def handle(record: Record) -> None:
        if record.offset == 0:
            await gate.wait()
        else:
            gate.set()

    await queue.worker(handle, concurrency=3).run(queue.stop)
    assert queue.asked[:2] == [(3, False), (2, True)]


async def test_never_more_handlers_run_than_allowed_even_if_more_records_came() -> None:
    queue = Queue(10, at_a_time=10)
    running = most = 0

    async def handle(record: Record) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await queue.worker(handle, concurrency=3).run(queue.stop)
    assert most == 3
    assert queue.decisions == dict.fromkeys(range(10), ACCEPT)


async def test_decisions_are_sent_on_their_own_while_all_other_handlers_are_busy() -> None:
    queue = Queue(3, at_a_time=3)
    gate = asyncio.Event()

    async def handle(record: Record) -> None:
        if record.offset == 0:
            return
        await gate.wait()

    async def open_the_gate_when_the_first_is_known() -> None:
        while not queue.was_sent(0):  # noqa: ASYNC110
            await asyncio.sleep(0)
        gate.set()

    async with asyncio.timeout(10):
        await asyncio.gather(
            queue.worker(handle, concurrency=2).run(queue.stop), open_the_gate_when_the_first_is_known()
        )
    assert queue.sent[0] == {0: ACCEPT}


async def test_at_a_stop_handlers_finish_and_what_waits_is_released() -> None:
    queue = Queue(5, at_a_time=5)

    async def handle(record: Record) -> None:
        queue.stop.set()
        await asyncio.sleep(0.01)

    async with asyncio.timeout(10):
        await queue.worker(handle, concurrency=2).run(queue.stop)
    assert queue.decisions == {0: ACCEPT, 1: ACCEPT, 2: RELEASE, 3: RELEASE, 4: RELEASE}
    assert all(queue.was_sent(offset) for offset in range(5))


@pytest.mark.parametrize("with_stop", [False, True])
async def test_cancelled_it_cancels_its_handlers_and_releases_everything(with_stop: bool) -> None:
    queue = Queue(3, at_a_time=3)
    started = asyncio.Event()
    ended: list[int] = []

    async def stuck(record: Record) -> None:
        try:
            started.set()
            await asyncio.sleep(3600)
        finally:
            ended.append(record.offset)

    running = asyncio.create_task(queue.worker(stuck, concurrency=2).run(queue.stop if with_stop else None))
    async with asyncio.timeout(10):
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert sorted(ended) == [0, 1]
    assert queue.decisions == {0: RELEASE, 1: RELEASE, 2: RELEASE}
    assert queue.sent == [queue.decisions]


async def test_last_decisions_that_cannot_be_sent_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue(1)

    def handle(record: Record) -> None:
        queue.failure = NotCoordinator("moved")

    await queue.worker(handle, concurrency=4).run(queue.stop)
    assert "the last acknowledgements were not sent" in caplog.text
