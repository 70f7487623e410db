from __future__ import annotations

import pytest

from penstock.client.errors import Disconnected, RequestTimeout, check, kafka_error, nearest
from penstock.wire.errors import ErrorCode, NotLeaderOrFollower


def test_a_code_becomes_its_exception_with_what_it_is_about() -> None:
    error = kafka_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved", "orders-0")
    assert isinstance(error, NotLeaderOrFollower)
    assert str(error) == "orders-0: moved"
    assert error.retriable


def test_no_error_raises_nothing() -> None:
    check(0)
    with pytest.raises(NotLeaderOrFollower):
        check(6)


def test_losing_the_broker_is_retriable() -> None:
    assert Disconnected().retriable
    assert RequestTimeout().retriable


def test_the_nearest_name_is_found_or_none() -> None:
    assert nearest("retenton.ms", ["retention.ms", "segment.ms"]) == "retention.ms"
    assert nearest("xyz", ["retention.ms"]) is None
