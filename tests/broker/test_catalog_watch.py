"""A broker that does not own its catalog any more stops; one whose catalog is away goes on and says so once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from penstock.broker.catalog_watch import CHECK_SECONDS, CatalogWatch
from penstock.broker.world import LoopWorld, WaitsFor
from penstock.catalog.contract import CatalogError, CatalogLost
from tests.broker.simulated_world import SimulatedWorld

T = TypeVar("T")


class _Done:
    def __init__(self, result: object) -> None:
        self.result = lambda: result

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        callback(self)


class World(SimulatedWorld):
    """Tells of finished work at once."""

    def in_thread(self, work: Callable[[], T], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[T]:
        self.in_threads += 1
        return _Done(work())  # type: ignore[return-value]

    def pass_checks(self, number: int) -> None:
        for _ in range(number):
            self.pass_ms(int(CHECK_SECONDS * 1000))


class Answers:
    """What checks answer, one after the other; the last one again and again."""

    def __init__(self, *answers: CatalogError | None) -> None:
        self._answers = list(answers)

    def __call__(self) -> None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is not None:
            raise answer


def test_a_lost_catalog_is_reported_once_and_not_asked_for_again() -> None:
    lost = CatalogLost("taken over")
    losses: list[CatalogError] = []
    world = World()
    CatalogWatch(world, Answers(None, None, lost), losses.append).start()
    world.pass_checks(2)
    assert losses == []
    world.pass_checks(5)
    assert losses == [lost]
    assert world.in_threads == 3


def test_a_catalog_that_is_away_is_logged_once_and_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    away = CatalogError("refused")
    losses: list[CatalogError] = []
    world = World()
    CatalogWatch(world, Answers(away, away, away, None), losses.append).start()
    world.pass_checks(6)
    assert (losses, world.in_threads) == ([], 6)
    assert caplog.messages == ["the catalog is away: refused", "the catalog is back"]


def test_a_stopped_watch_asks_nobody() -> None:
    world = World()
    watch = CatalogWatch(world, Answers(CatalogLost("taken over")), lambda error: pytest.fail(str(error)))
    watch.start()
    watch.stop()
    world.pass_checks(3)
    assert world.in_threads == 0


async def test_what_a_check_finds_after_the_end_counts_for_nothing() -> None:
    losses: list[CatalogError] = []
    watch = CatalogWatch(LoopWorld(asyncio.get_running_loop()), Answers(CatalogLost("taken over")), losses.append)
    watch._begin()
    watch.stop()
    await asyncio.get_running_loop().shutdown_default_executor()
    await asyncio.sleep(0)
    assert losses == []
