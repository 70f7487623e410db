"""The parts of share groups together: their life is that of the broker and of its topics."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import (
    ACCEPT,
    Wire,
    ack_errors,
    acquired,
    initialize,
    member,
    produce,
    topic_id,
)


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
