"""One request to several brokers: the next one gets it when the one before fails or is slow.

A broker that hangs, or whose network swallows packets, keeps its connections open. Waiting for it alone would take
until the request times out, although any other broker could have answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from penstock.wire.errors import KafkaError

T = TypeVar("T")


async def first_answer(attempts: Iterable[Callable[[], Awaitable[T]]], patience_s: float) -> T:
    """The first answer of all attempts. Each begins when those before it have failed, or after `patience_s`.

    An error that is not retriable is raised at once, the last retriable one when all attempts have failed.
    """
    waiting: set[asyncio.Task[T]] = set()
    left = iter(attempts)
    error: KafkaError | None = None
    try:
        while True:
            attempt = next(left, None)
            if attempt is not None:
                waiting.add(asyncio.ensure_future(_run(attempt)))
            elif not waiting:
                assert error is not None, "no broker is known"
                raise error
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=None if attempt is None else patience_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                for task in done:
                    try:
                        return task.result()
                    except KafkaError as failure:
                        if not failure.retriable:
                            raise
                        error = failure
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _run(attempt: Callable[[], Awaitable[T]]) -> T:
    return await attempt()
