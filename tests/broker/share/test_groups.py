"""The parts of share groups together: their life is that of the broker and of its topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    ack_errors,
    acquired,
    initialize,
    produce,
    topic_id,
)

ACCEPT, RELEASE = [1], [2]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.share.min.record.lock.duration.ms": 1000}) as it:
        it.create_topic("jobs", 2)
        yield it


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as it:
        yield it


def member(wire: Wire, group: str = "g", member_id: str = "m1") -> ShareMember:
    return ShareMember(wire, group, member_id, topic_id(wire, "jobs"))


def test_a_topic_that_is_deleted_takes_the_windows_and_the_state_of_its_groups_along(
    broker: Broker, wire: Wire
) -> None:
    topic = topic_id(wire, "jobs")
    produce(wire, "jobs", [b"1"])
    initialize(wire, "g", topic)
    worker = member(wire)
    assert acquired(worker.fetch()) == [(0, 0, 1)]
    request = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name="jobs")], timeout_ms=5_000)
    wire.ask(ApiKey.DELETE_TOPICS, 6, request, m.DeleteTopicsResponse)
    assert ack_errors(worker.acknowledge({0: [(0, 0, ACCEPT)]})) == [ErrorCode.UNKNOWN_TOPIC_ID]
    broker.create_topic("jobs")
    assert initialize(wire, "g", topic_id(wire, "jobs"), epoch=0) == [0], "an old state would have a higher epoch"
