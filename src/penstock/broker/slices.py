"""Answers to those who look at the broker, made a little at a time, so that clients are served meanwhile.

What is shown may be large, and many may look at the same. So it is made in slices of about a millisecond, and those who
look within a fraction of a second share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.world import Task, World

_SLICE_SECONDS = 0.001
_FRESH_SECONDS = 0.1
_KEPT_MAX = 16


async def let_others_run() -> None:
    await asyncio.sleep(0)


async def in_slices(
    pieces: Iterable[bytes], precise: Callable[[], float], pause: Callable[[], Awaitable[None]] = let_others_run
) -> list[bytes]:
    """All pieces, with a pause before the next one whenever a slice of time is over. An empty one is that alone."""
    found: list[bytes] = []
    until = precise() + _SLICE_SECONDS
    for piece in pieces:
        if piece:
            found.append(piece)
        if precise() >= until:
            await pause()
            until = precise() + _SLICE_SECONDS
    return found


class Shared:
    """Bodies that everybody who wants the same at about the same time shares: each is made once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bodies: dict[str, asyncio.Future[list[bytes]]] = {}
        self._tasks: set[Task] = set()

    async def get(self, key: str, make: Callable[[], Iterator[bytes]]) -> list[bytes]:
        """What is known under the key, made anew unless it is being made, or was a moment ago."""
        body = self._bodies.get(key)
        if body is None:
            while len(self._bodies) >= _KEPT_MAX:
                del self._bodies[next(iter(self._bodies))]
            body = self._bodies[key] = asyncio.get_running_loop().create_future()
            task = self._world.spawn(self._make(body, make))
            self._tasks.add(task)
            body.add_done_callback(lambda _: self._made(key, body, task))
        return await asyncio.shield(body)  # whoever gives up waiting takes it from nobody else

    async def _make(self, body: asyncio.Future[list[bytes]], make: Callable[[], Iterator[bytes]]) -> None:
        try:
            body.set_result(await in_slices(make(), self._world.precise))
        except Exception as error:
            body.set_exception(error)
            body.exception()  # nobody may wait for it any more

    def _made(self, key: str, body: asyncio.Future[list[bytes]], task: Task) -> None:
        self._tasks.discard(task)
        self._world.call_later(_FRESH_SECONDS, self._forget, key, body)

    def _forget(self, key: str, body: asyncio.Future[list[bytes]]) -> None:
        if self._bodies.get(key) is body:
            del self._bodies[key]
