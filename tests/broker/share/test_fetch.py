"""A share fetch answers once: with records, with errors of single partitions, or when its time is up."""

from __future__ import annotations

import pytest

from penstock.broker.share.live import LiveSharePartition
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    initialize,
    produce,
    topic_id,
    values,
)


def test_a_partition_that_fails_does_not_cost_the_others_of_its_session(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(wire, "jobs", [b"bad"], partition=0)
    produce(wire, "jobs", [b"good"], partition=1)
    initialize(wire, "g", topic_id(wire, "jobs"), partitions=2)
    prepare = LiveSharePartition.prepare

    def fails(self: LiveSharePartition, *arguments: object) -> object:
        if self.key[2] == 0:
            raise RuntimeError("nobody foresaw this")
        return prepare(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveSharePartition, "prepare", fails)
    worker = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    response = worker.fetch(partitions=(0, 1))
    assert values(response) == [b"good"]
    codes = {data.partition_index: data.error_code for topic in response.responses for data in topic.partitions}
    assert codes == {0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: ErrorCode.NONE}
    assert worker.fetch().error_code == 0, "the session goes on"


def test_a_deleted_topic_ends_the_wait(broker: Broker, wire: Wire) -> None:
    topic = topic_id(wire, "jobs")
    initialize(wire, "g", topic)
    with Wire(broker) as connection:
        waiter = ShareMember(connection, "g", "m1", topic)
        waiter.fetch()
        waiter.send_fetch(max_wait_ms=15_000)
        request = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name="jobs")], timeout_ms=5_000)
        wire.ask(ApiKey.DELETE_TOPICS, 6, request, m.DeleteTopicsResponse)
        assert waiter.receive_fetch().responses[0].partitions[0].error_code == 100
