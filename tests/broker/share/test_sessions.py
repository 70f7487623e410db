"""Share sessions are limited, and what a member held comes back when its session ends."""

from __future__ import annotations

import time

import pytest

from penstock.broker.share.live import LiveSharePartition
from penstock.testing import Broker
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    acquired,
    initialize,
    member,
    produce,
    topic_id,
    values,
)


def test_sessions_are_limited_and_the_refusal_is_held_back() -> None:
    with Broker({"group.share.max.share.sessions": 1, "group.share.max.size": 1}) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as first, Wire(broker) as second:
            topic = topic_id(first, "jobs")
            initialize(first, "g", topic)
            ShareMember(first, "g", "m1", topic).fetch()
            started = time.monotonic()
            refused = ShareMember(second, "g", "m2", topic).fetch(max_wait_ms=300)
            assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            assert time.monotonic() - started >= 0.29
            first.close()
            again = ShareMember(second, "g", "m2", topic)
            for _ in range(100):
                if again.fetch(max_wait_ms=50).error_code == 0:
                    break
            assert again.epoch == 1


def test_a_window_that_fails_does_not_keep_the_records_of_the_others_locked(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_id(wire, "jobs")
    for partition in (0, 1):
        produce(wire, "jobs", [b"%d" % partition], partition)
    initialize(wire, "g", topic, partitions=2)
    release = LiveSharePartition.release

    def fails(self: LiveSharePartition, member_id: str) -> None:
        if self.key[2] == 0:
            raise RuntimeError("nobody foresaw this")
        release(self, member_id)

    monkeypatch.setattr(LiveSharePartition, "release", fails)
    with Wire(broker) as short:
        worker = ShareMember(short, "g", "m1", topic)
        assert len(values(worker.fetch(partitions=(0, 1)))) == 2
    waiter = ShareMember(wire, "g", "m2", topic)
    assert values(waiter.fetch(partitions=(0, 1), max_wait_ms=15_000)) == [b"1"]


def test_a_stop_gives_back_what_members_hold(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    assert acquired(member(wire).fetch()) == [(0, 1, 1)]
    broker.restart()
    with Wire(broker) as again:
        assert acquired(member(again, member_id="m2").fetch()) == [(0, 1, 2)]
