"""The loop of `ShareConsumer.run`: concurrent handlers, each record acknowledged according to how its handler ended.

It never requests more records than there are free handlers, so that other workers get the rest. Acknowledgements are
sent with the next fetch; while all handlers are busy there is none, so they are sent separately.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic

from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.types import ConsumerRecord, K, V
from penstock.wire.errors import KafkaError

_log = logging.getLogger("penstock.client")

Handler = Callable[[ConsumerRecord[K, V]], Awaitable[object] | object]


class Reject(Exception):
    """Raised by a handler of `ShareConsumer.run` if a record can never be processed: it is not delivered again."""


@dataclass(slots=True)
class Worker(Generic[K, V]):
    """What the loop needs of its consumer."""

    handler: Handler[K, V]
    concurrency: int
    take: Callable[[int, bool], Awaitable[list[ConsumerRecord[K, V]]]]  # at most so many; whether handlers run
    decide: Callable[[ConsumerRecord[K, V], int], object]
    has_decisions: Callable[[], bool]  # that wait to be sent
    send_decisions: Callable[[], Awaitable[object]]
    around: Callable[[ConsumerRecord[K, V]], AbstractContextManager[object]]  # each call of the handler

    async def run(self, stop: asyncio.Event | None) -> None:
        """Work until cancelled, or until `stop` is set; then the handlers that run may finish."""
        running: set[asyncio.Task[None]] = set()
        waiting: deque[ConsumerRecord[K, V]] = deque()
        try:
            while stop is None or not stop.is_set():
                while waiting and len(running) < self.concurrency:
                    task = asyncio.create_task(self._work(waiting.popleft()))
                    running.add(task)
                    task.add_done_callback(running.discard)
                if len(running) >= self.concurrency or waiting:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    if len(running) >= self.concurrency // 2 and self.has_decisions():
                        await self.send_decisions()
                    continue
                waiting.extend(await self.take(self.concurrency - len(running), bool(running)))
        finally:
            for record in waiting:
                self.decide(record, AcknowledgeType.RELEASE)
            if stop is None or not stop.is_set():
                for task in running:
                    task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)
            try:
                await self.send_decisions()
            except KafkaError as error:
                _log.warning("the last acknowledgements were not sent: %s", error)

    async def _work(self, record: ConsumerRecord[K, V]) -> None:
        kind = AcknowledgeType.RELEASE
        try:
            with self.around(record):
                result = self.handler(record)
                if inspect.isawaitable(result):
                    await result
            kind = AcknowledgeType.ACCEPT
        except Reject as error:
            _log.info("%s offset %d is rejected: %s", record.topic, record.offset, error)
            kind = AcknowledgeType.REJECT
        except Exception:
            _log.exception("the handler failed; %s offset %d is released", record.topic, record.offset)
        finally:
            self.decide(record, int(kind))
