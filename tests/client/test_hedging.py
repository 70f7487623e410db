"""A question goes to the next broker when the one before fails or takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.errors import AuthenticationFailed, Disconnected, RequestTimeout
from penstock.client.hedging import first_answer
from penstock.wire.errors import KafkaError

ENDLESS = 3600.0
PATIENCE = 0.01


class Brokers:
    """Remembers who was asked, and who was given up."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.given_up: list[str] = []

    def says(self, name: str, outcome: str | KafkaError, after_s: float = 0.0) -> Callable[[], Awaitable[str]]:
        async def attempt() -> str:
            self.asked.append(name)
            try:
                await asyncio.sleep(after_s)
            except asyncio.CancelledError:
                self.given_up.append(name)
                raise
            if isinstance(outcome, KafkaError):
                raise outcome
            return outcome

        return attempt


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


async def test_one_that_answers_is_the_only_one_that_is_asked(brokers: Brokers) -> None:
    assert await first_answer([brokers.says("a", "yes"), brokers.says("b", "no")], ENDLESS) == "yes"
    assert brokers.asked == ["a"]


async def test_one_that_takes_long_is_given_up_when_another_has_answered(brokers: Brokers) -> None:
    assert await first_answer([brokers.says("a", "late", ENDLESS), brokers.says("b", "yes")], PATIENCE) == "yes"
    assert brokers.given_up == ["a"]


async def test_one_that_takes_long_is_still_listened_to(brokers: Brokers) -> None:
    slow = brokers.says("a", "late", 20 * PATIENCE)
    assert await first_answer([slow, brokers.says("b", "later", ENDLESS)], PATIENCE) == "late"
    assert brokers.asked == ["a", "b"]


async def test_after_a_failure_the_next_one_is_asked_at_once(brokers: Brokers) -> None:
    failing = brokers.says("a", Disconnected("gone"))
    assert await first_answer([failing, brokers.says("b", "yes")], ENDLESS) == "yes"


async def test_when_all_have_failed_the_last_error_is_raised(brokers: Brokers) -> None:
    attempts = [brokers.says("a", Disconnected("gone")), brokers.says("b", RequestTimeout("late"))]
    with pytest.raises(RequestTimeout, match="late"):
        await first_answer(attempts, ENDLESS)


async def test_an_error_that_will_not_pass_ends_the_search(brokers: Brokers) -> None:
    with pytest.raises(AuthenticationFailed):
        await first_answer([brokers.says("a", AuthenticationFailed("no")), brokers.says("b", "yes")], ENDLESS)
    assert brokers.asked == ["a"]


async def test_whoever_is_cancelled_gives_up_all_attempts(brokers: Brokers) -> None:
    attempts = [brokers.says("a", "late", ENDLESS), brokers.says("b", "late", ENDLESS)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first_answer(attempts, PATIENCE), 20 * PATIENCE)
    assert sorted(brokers.given_up) == ["a", "b"]
