"""What a coordinator refuses because it is not there yet is repeated, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from penstock.broker.share.insisting import PAUSES_SECONDS, Codes, insist
from penstock.broker.world import World
from penstock.queues.sessions import TopicIdPartition
from penstock.wire.errors import ErrorCode

FIRST, SECOND = ((bytes(16), index) for index in range(2))
WANTED = {FIRST: "one", SECOND: "two"}


class Pauses:
    """A world in which nothing but pauses happens, each of which is over at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self.seconds.append(seconds)
        callback(*args)


def outcomes(*answers: dict[TopicIdPartition, ErrorCode]) -> tuple[list[Mapping[TopicIdPartition, str]], list[float]]:
    """What a coordinator that answers so was sent, and the pauses between; the last answer is given again and again."""
    sent: list[Mapping[TopicIdPartition, str]] = []
    pauses = Pauses()
    done: list[dict[TopicIdPartition, ErrorCode]] = []

    def attempt(wanted: Mapping[TopicIdPartition, str], answered: Codes) -> None:
        sent.append(wanted)
        answer = answers[min(len(sent), len(answers)) - 1]
        answered({tp: answer[tp] for tp in wanted})

    insist(cast(World, pauses), WANTED, attempt, done.append)
    (codes,) = done
    assert codes.keys() == WANTED.keys()
    assert codes[FIRST] is answers[-1][FIRST]
    return sent, pauses.seconds


def test_what_succeeds_is_sent_once() -> None:
    assert outcomes(dict.fromkeys(WANTED, ErrorCode.NONE)) == ([WANTED], [])


def test_what_was_refused_because_the_coordinator_is_on_its_way_is_sent_again_alone() -> None:
    sent, pauses = outcomes(
        {FIRST: ErrorCode.NOT_COORDINATOR, SECOND: ErrorCode.NONE},
        {FIRST: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
        {FIRST: ErrorCode.NONE},
    )
    assert sent == [WANTED, {FIRST: "one"}, {FIRST: "one"}]
    assert pauses == list(PAUSES_SECONDS[:2])


def test_it_is_given_up_some_time() -> None:
    sent, pauses = outcomes(dict.fromkeys(WANTED, ErrorCode.NOT_COORDINATOR))
    assert sent == [WANTED] * (len(PAUSES_SECONDS) + 1)
    assert pauses == list(PAUSES_SECONDS)


def test_what_may_have_been_carried_out_and_what_is_wrong_are_not_repeated() -> None:
    for code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.FENCED_STATE_EPOCH):
        assert outcomes(dict.fromkeys(WANTED, code)) == ([WANTED], [])
