"""Has threads fetch what a log did not find in memory (`ColdRead`), and then whoever wanted it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.world import WaitsFor, World
from penstock.storage.contract import ColdRead, FarFetch

Fetched = Callable[[BaseException | None], None]
"""Called with None, or with what kept a thread from fetching: another try would fail in the same way."""


def when_fetched(world: World, cold: ColdRead, then: Fetched) -> None:
    fetching = _fetch(world, cold)

    def done(fetched: asyncio.Future[list[None]]) -> None:
        if not fetched.cancelled():
            then(fetched.exception())

    fetching.add_done_callback(done)


async def until_fetched(world: World, cold: ColdRead) -> None:
    """Return when the read is worth another try. Raises what kept a thread from fetching."""
    await _fetch(world, cold)


def _fetch(world: World, cold: ColdRead) -> asyncio.Future[list[None]]:
    return asyncio.gather(
        *[
            world.in_thread(fetch, WaitsFor.STORE if isinstance(fetch, FarFetch) else WaitsFor.THIS_MACHINE)
            for fetch in cold.fetches
        ]
    )
