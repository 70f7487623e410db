from __future__ import annotations

import re

from penstock.client.subscription import Subscription
from penstock.client.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_partitions_that_stay_keep_their_position() -> None:
    subscription = Subscription()
    subscription.assign([A])
    state = subscription.partitions[A]
    subscription.seek(state, 5)
    subscription.assign([B, A, A])
    assert list(subscription.partitions) == [B, A]
    assert subscription.partitions[A] is state
    assert [waiting.tp for waiting in subscription.without_position()] == [B]


def test_an_answer_from_before_a_seek_is_stale() -> None:
    subscription = Subscription()
    subscription.assign([A])
    state = subscription.partitions[A]
    before = state.serial
    subscription.seek(state, 5)
    assert subscription.current(A, before) is None
    assert subscription.current(A, state.serial) is state
    serial = state.serial
    subscription.seek_by_time(state, -2)
    assert subscription.current(A, serial) is None
    assert (state.position, state.reset_to) == (None, -2)


def test_an_answer_for_a_partition_that_left_and_came_back_is_stale() -> None:
    subscription = Subscription()
    subscription.assign([A])
    before = subscription.partitions[A].serial
    subscription.assign([])
    subscription.assign([A])
    assert subscription.current(A, before) is None


def test_a_pattern_matches_whole_names_and_no_internal_topics() -> None:
    subscription = Subscription()
    assert not subscription.is_by_group
    subscription.pattern = re.compile("or.*")
    assert subscription.is_by_group
    assert subscription.matches("orders", False, True)
    assert not subscription.matches("my-orders", False, True)
    assert not subscription.matches("or__internal", True, True)
    assert subscription.matches("or__internal", True, False)
