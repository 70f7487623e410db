"""Few derivations at a time, a bounded queue, and as many for users who do not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.credentials import Stored
from penstock.broker.password_checks import AT_ONCE, MAX_WAITING, PasswordChecks, TooBusy
from penstock.broker.world import WaitsFor
from penstock.security.scram import ScramMechanism, credential_of

STORED = Stored(ScramMechanism.SCRAM_SHA_256, credential_of(ScramMechanism.SCRAM_SHA_256, "secret", b"salt" * 4, 4096))


class SlowThreads:
    """Threads that finish when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def in_thread(self, work: Callable[[], Any], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self.work.append((work, future))
        return future

    async def finish_one(self) -> None:
        work, future = self.work.pop(0)
        future.set_result(work())
        await asyncio.sleep(0)


async def test_the_right_password_matches_and_a_wrong_one_does_not() -> None:
    world = SlowThreads()
    answers: list[bool] = []
    checks = PasswordChecks(world)  # type: ignore[arg-type]
    checks.check(STORED, "secret", answers.append)
    checks.check(STORED, "wrong", answers.append)
    await world.finish_one()
    await world.finish_one()
    assert answers == [True, False]


async def test_few_run_at_a_time_and_the_rest_follow_in_order() -> None:
    world = SlowThreads()
    answers: list[bool] = []
    checks = PasswordChecks(world)  # type: ignore[arg-type]
    for number in range(5):
        checks.check(STORED, "x", lambda _, number=number: answers.append(number))  # type: ignore[misc]
    assert len(world.work) == AT_ONCE
    for _ in range(5):
        await world.finish_one()
    assert answers == [0, 1, 2, 3, 4]


async def test_beyond_the_bound_checks_are_refused_at_once() -> None:
    checks = PasswordChecks(SlowThreads())  # type: ignore[arg-type]
    for _ in range(AT_ONCE + MAX_WAITING):
        checks.check(STORED, "x", lambda _: None)
    with pytest.raises(TooBusy):
        checks.check(STORED, "x", lambda _: None)


async def test_a_check_that_breaks_counts_as_a_wrong_password() -> None:
    world = SlowThreads()
    answers: list[bool] = []
    checks = PasswordChecks(world)  # type: ignore[arg-type]
    checks.check(STORED, "secret", answers.append)
    world.work.pop()[1].set_exception(RuntimeError("no thread"))
    await asyncio.sleep(0)
    assert answers == [False]
