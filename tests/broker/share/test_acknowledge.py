"""An acknowledgement is answered when it is as durable as configured."""

from __future__ import annotations

import pytest

from penstock.testing import Broker
from tests.broker.disk import WAIT_S, SlowDisk
from tests.broker.share.share_client import (
    ACCEPT,
    ShareMember,
    Wire,
    ack_errors,
    acquired,
    initialize,
    produce,
    topic_id,
)


def test_an_acknowledgement_is_confirmed_when_written_and_the_disk_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    with Broker({"penstock.acks.all.flush": "true"}) as broker, Wire(broker) as wire:
        worker = worker_with_two_records(broker, wire)
        disk.stall()
        assert ack_errors(worker.acknowledge({0: [(0, 1, ACCEPT)]})) == [0]
        assert not disk.has_synced.is_set()
        disk.go_on()
        assert disk.has_synced.wait(WAIT_S)


def test_an_acknowledgement_waits_for_the_disk_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    configs = {"penstock.acks.all.flush": "true", "penstock.share.flush.interval.ms": 0}
    with Broker(configs) as broker, Wire(broker) as wire:
        worker = worker_with_two_records(broker, wire)
        disk.stall()
        worker.send_fetch(acks={0: [(0, 1, ACCEPT)]})
        assert not wire.is_readable(0.1)
        disk.go_on()
        assert ack_errors(worker.receive_fetch()) == [0]


def worker_with_two_records(broker: Broker, wire: Wire) -> ShareMember:
    broker.create_topic("jobs")
    topic = topic_id(wire, "jobs")
    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic)
    worker = ShareMember(wire, "g", "m1", topic)
    assert acquired(worker.fetch()) == [(0, 1, 1)]
    return worker
