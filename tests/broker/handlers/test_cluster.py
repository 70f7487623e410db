"""UpdateFeatures: the levels of features as an administrator changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.features import UPGRADE
from penstock.testing import Broker
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.feature_levels import finalized, lower, update


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        yield it


def test_a_lowered_level_is_finalized_and_can_be_raised_again(broker: Broker) -> None:
    before, epoch = finalized(broker)
    lower(broker, "transaction.version", 1)
    assert finalized(broker) == ({**before, "transaction.version": 1}, epoch + 1)
    assert update(broker, "transaction.version", 2, UPGRADE).error_code == 0
    assert finalized(broker) == (before, epoch + 2)


def test_a_refused_update_says_what_is_wrong(broker: Broker) -> None:
    refused = update(broker, "share.version", 0, UPGRADE)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "without setting the upgrade type" in (refused.error_message or "")
    done = update(broker, "share.version", 1, UPGRADE, version=1)
    assert [(each.feature, each.error_message) for each in done.results] == [("share.version", "NONE")]
