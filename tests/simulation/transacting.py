"""Transactional producers of `penstock.client`: one after the other under one id, and how their transactions end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from penstock.client.producer import Producer
from penstock.simulation.world import SimulatedWorld
from penstock.wire.errors import KafkaError
from tests.simulation.raw import access

_REQUEST_TIMEOUT_MS = 2_000


def transactional(
    world: SimulatedWorld,
    transactional_id: str,
    *,
    delivery_timeout_ms: int = 60_000,
    transaction_timeout_ms: int = 20_000,
) -> Producer:
    return Producer(
        **access(world),
        transactional_id=transactional_id,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=delivery_timeout_ms,
        transaction_timeout_ms=transaction_timeout_ms,
    )


class Course(NamedTuple):
    """How many producers a program has, one after the other, and how many transactions each of them."""

    producers: int
    fewest: int
    most: int
    transaction_timeout_ms: int = 20_000


async def transact(
    world: SimulatedWorld,
    name: str,
    transactional_id: str,
    course: Course,
    chance: random.Random,
    one: Callable[[Producer, str], Awaitable[None]],
) -> None:
    """Run a program; `one` makes the transaction of a name. A producer that fails is given up."""
    for number in range(course.producers):
        try:
            async with transactional(
                world, transactional_id, transaction_timeout_ms=course.transaction_timeout_ms
            ) as producer:
                for count in range(chance.randint(course.fewest, course.most)):
                    await one(producer, f"{name}-{number}-{count}")
        except KafkaError as error:
            world.tell(name, f"gives up this producer: {error!r}")
            await asyncio.sleep(chance.uniform(0.1, 0.5))


class Outcome:
    """How a transaction ends, as far as its producer knows."""

    result = "aborted"
    """Nobody has asked for anything else."""


@asynccontextmanager
async def transaction(producer: Producer, is_to_be_committed: Callable[[], bool]) -> AsyncIterator[Outcome]:
    """What is done inside is one transaction; whoever keeps the outcome knows of it also when something fails."""
    outcome = Outcome()
    producer.begin_transaction()
    yield outcome
    if is_to_be_committed():
        outcome.result = "unknown"
        await producer.commit_transaction()
        outcome.result = "committed"
    else:
        await producer.abort_transaction()
