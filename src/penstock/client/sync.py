"""The client for programs without asyncio: the same classes, the same names, calls that block.

    from penstock.client.sync import Producer

    with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        producer.send("orders", b"one order").result()

Every object runs its asyncio twin on an event loop in a thread of its own, so heartbeats, batching and prefetching go
on while the program does something else. A method that is `async def` there blocks here; `async for` becomes `for`,
`async with` becomes `with`. `Producer.send` does not block unless the buffer is full; the `Delivery` it returns has
`result`.

Type checkers read `sync.pyi`, which `python -m penstock.client.sync_stubs` generates.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import cast

from penstock.client import admin as _admin
from penstock.client import consumer as _consumer
from penstock.client import producer as _producer
from penstock.client import share_consumer as _share_consumer
from penstock.client.accumulator import Delivery as _AsyncDelivery
from penstock.client.partitions import P
from penstock.client.transactions import ConsumerGroupMetadata, GroupMember
from penstock.client.types import OffsetAndMetadata, RecordMetadata

__all__ = ["Admin", "Consumer", "Delivery", "Producer", "ShareConsumer"]

HANDOVER_LIMIT = 10_000  # records on their way to the event loop's thread


class _Loop:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def wait(self, work: Coroutine[object, object, object]) -> object:
        """Run a coroutine there and wait for it here; Ctrl-C here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _Front:
    """What all fronts do: own a loop, own the asyncio object, start and close."""

    _twin_class: type

    def __init__(self, *arguments: object, **settings: object) -> None:
        self._loop = _Loop(f"penstock-{type(self).__name__.lower()}")
        self._closed = False

        async def make() -> object:
            return self._twin_class(*arguments, **settings)

        try:
            self._twin = self._loop.wait(make())
        except BaseException:
            self._loop.stop()
            raise

    def start(self) -> object:
        self._loop.wait(self._twin.start())  # type: ignore[attr-defined]
        return self

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._loop.wait(self._twin.close())  # type: ignore[attr-defined]
            finally:
                self._loop.stop()

    def __enter__(self) -> object:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def _blocking(name: str, method: Callable[..., object]) -> Callable[..., object]:
    """The blocking form of a method of the asyncio class."""

    def call(self: _Front, *arguments: object, **named: object) -> object:
        async def work() -> object:
            result = getattr(self._twin, name)(*arguments, **named)
            if isinstance(result, asyncio.Task):
                return None  # started; whoever wants to know gives a callback
            return await result if inspect.isawaitable(result) else result

        return self._loop.wait(work())

    return functools.wraps(method)(call)


def _reading(name: str) -> property:
    def read(self: _Front) -> object:
        return getattr(self._twin, name)

    return property(read)


def _front(twin: type) -> Callable[[type[_Front]], type[_Front]]:
    """Class decorator: give a front all public methods of its twin that it does not define itself."""

    def build(front: type[_Front]) -> type[_Front]:
        front._twin_class = twin
        front.__doc__ = twin.__doc__
        for name, member in inspect.getmembers(twin):
            if name.startswith("_") or hasattr(front, name):
                continue
            if isinstance(member, property):
                setattr(front, name, _reading(name))
            elif callable(member):
                setattr(front, name, _blocking(name, member))
        return front

    return build


class Delivery:
    """The fate of one record: `result` waits for it."""

    __slots__ = ("_delivery", "_error", "_front")

    def __init__(self, front: Producer) -> None:
        self._front = front
        self._delivery: _AsyncDelivery | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._error is not None or (self._delivery is not None and self._delivery.done())

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises what kept it from being written, or TimeoutError after `timeout` seconds."""
        found = self._front._loop.wait(self._wait(timeout))
        assert isinstance(found, RecordMetadata)
        return found

    async def _wait(self, timeout: float | None) -> RecordMetadata:
        async with asyncio.timeout(timeout):
            await self._front._handed_over()
            if self._error is not None:
                raise self._error
            assert self._delivery is not None
            return await self._delivery


@_front(_producer.Producer)
class Producer(_Front):
    _twin: _producer.Producer

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self._handover: deque[tuple[Delivery, tuple[object, ...], dict[str, object], Context | None]] = deque()
        self._traces = self._twin.config.enable_tracing
        self._handing = threading.Lock()  # several threads may send; one task takes over
        self._taking = False
        self._taker: Future[None] | None = None
        self._room = threading.Event()

    def send(self, *arguments: object, **named: object) -> Delivery:
        """Put one record into the buffer; waits only while it is full."""
        delivery = Delivery(self)
        with self._handing:
            # A span of the thread that sends is the parent of the record's.
            self._handover.append((delivery, arguments, named, copy_context() if self._traces else None))
            if not self._taking:
                self._taking = True
                self._taker = asyncio.run_coroutine_threadsafe(self._take(), self._loop.loop)
        if len(self._handover) > HANDOVER_LIMIT:
            self._room.clear()
            while len(self._handover) > HANDOVER_LIMIT // 2 and self._taking:
                self._room.wait(0.05)
                self._room.clear()
        return delivery

    def send_batch(self, *arguments: object, **named: object) -> list[Delivery]:
        """Send many records at once; returns one delivery per batch that was made."""
        self._loop.wait(self._handed_over())
        made = self._loop.wait(self._twin.send_batch(*arguments, **named))  # type: ignore[arg-type]
        deliveries = []
        for twin in cast("list[_AsyncDelivery]", made):
            delivery = Delivery(self)
            delivery._delivery = twin
            deliveries.append(delivery)
        return deliveries

    def send_and_wait(self, *arguments: object, **named: object) -> RecordMetadata:
        """`send`, and wait for the broker."""
        self._loop.wait(self._handed_over())
        place = self._loop.wait(self._twin.send_and_wait(*arguments, **named))  # type: ignore[arg-type]
        return cast(RecordMetadata, place)

    async def _take(self) -> None:
        """Runs in the loop's thread: takes over what was handed over, in order."""
        while True:
            while self._handover:
                delivery, arguments, named, context = self._handover[0]
                try:
                    sending = self._twin.send(*arguments, **named)  # type: ignore[arg-type]
                    if context is not None:
                        sending = asyncio.get_running_loop().create_task(sending, context=context)  # type: ignore[assignment]
                    delivery._delivery = await sending
                except Exception as error:
                    delivery._error = error
                self._handover.popleft()
                if not self._room.is_set() and len(self._handover) <= HANDOVER_LIMIT // 2:
                    self._room.set()
            with self._handing:
                if not self._handover:
                    self._taking = False
                    return

    async def _handed_over(self) -> None:
        """Return when everything that was handed over has been taken over."""
        while self._handover and self._taker is not None:
            # Shielded: one who stops waiting must not stop the taking over of everybody's records.
            await asyncio.shield(asyncio.wrap_future(self._taker))

    def flush(self) -> None:
        """Deliver everything that was sent."""
        self._loop.wait(self._handed_over())
        self._loop.wait(self._twin.flush())

    def commit_transaction(self) -> None:
        self._loop.wait(self._handed_over())
        self._loop.wait(self._twin.commit_transaction())

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """`with producer.transaction():` commits at the end, or aborts if the block raises."""
        self.begin_transaction()  # type: ignore[attr-defined]
        try:
            yield self
        except BaseException:
            self._loop.wait(self._handed_over())
            self.abort_transaction()  # type: ignore[attr-defined]
            raise
        self.commit_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[P, OffsetAndMetadata | int],
        group: GroupMember | ConsumerGroupMetadata | str,
    ) -> None:
        """Commit the offsets of what was consumed together with what is produced."""
        who = group if isinstance(group, (str, ConsumerGroupMetadata)) else group.group_metadata()
        self._loop.wait(self._twin.send_offsets_to_transaction(offsets, who))

    def close(self, timeout_ms: int | None = None) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._loop.wait(self._handed_over())
            self._loop.wait(self._twin.close(timeout_ms))
        finally:
            self._loop.stop()


@_front(_consumer.Consumer)
class Consumer(_Front):
    def __iter__(self) -> Iterator[object]:
        while True:
            record = self.get_one()  # type: ignore[attr-defined]
            if record is not None:
                yield record


@_front(_share_consumer.ShareConsumer)
class ShareConsumer(_Front):
    def __iter__(self) -> Iterator[object]:
        while True:
            yield from self.poll()  # type: ignore[attr-defined]

    @contextmanager
    def hold(self, record: object) -> Iterator[object]:
        """Keep a record locked for as long as the block runs, by renewing in the background."""
        managed = self._twin.hold(record)  # type: ignore[attr-defined]
        self._loop.wait(managed.__aenter__())
        try:
            yield record
        finally:
            self._loop.wait(managed.__aexit__(None, None, None))

    def run(self, handler: Callable[[object], object], *, concurrency: int = 1) -> None:
        """Call `handler` for every record, up to `concurrency` at a time, each in a thread, until Ctrl-C."""
        with ThreadPoolExecutor(concurrency, "penstock-worker") as pool:

            async def in_thread(record: object) -> object:
                return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, handler, record)

            self._loop.wait(self._twin.run(in_thread, concurrency=concurrency))  # type: ignore[attr-defined]


@_front(_admin.Admin)
class Admin(_Front):
    pass
