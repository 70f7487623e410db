"""Two brokers, and a mirror between them in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from penstock.client import Admin
from penstock.mirror.run import Mirror, Plan
from penstock.testing.broker import Broker

WAIT_S = 30
QUICK = Plan(interval_s=0.1)


@pytest.fixture
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
async def from_(source: Broker) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
async def to(target: Broker) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=target.bootstrap_servers) as admin:
        yield admin


def sides(source: Broker, target: Broker) -> tuple[dict[str, object], dict[str, object]]:
    return {"bootstrap_servers": source.bootstrap_servers}, {"bootstrap_servers": target.bootstrap_servers}


@asynccontextmanager
async def mirroring(source: Broker, target: Broker, plan: Plan = QUICK) -> AsyncIterator[Mirror]:
    """A mirror that runs."""
    async with Mirror(*sides(source, target), plan) as mirror:
        task = asyncio.create_task(mirror.run())
        try:
            yield mirror
        finally:
            if task.done():
                task.result()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def caught_up(mirror: Mirror, **ends: int) -> None:
    """Wait until partition 0 of each of these topics has reached an offset."""
    await until(
        lambda: all(
            {tp.topic: end for tp, end in mirror.ends().items() if tp.partition == 0}.get(name) == end
            for name, end in ends.items()
        )
    )
