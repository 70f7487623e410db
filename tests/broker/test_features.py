"""Finalized features are lowered and raised as in Apache Kafka 4.3.1, whose answers these are, and kept."""

from __future__ import annotations

import pytest

from penstock.broker.features import SAFE_DOWNGRADE, SUPPORTED, UNSAFE_DOWNGRADE, UPGRADE, Features, Update
from penstock.catalog.contract import Catalog
from penstock.catalog.memory import MemoryCatalog
from penstock.wire.api import ApiKey
from penstock.wire.errors import InvalidUpdateVersion

ALL_PROTOCOLS = ["classic", "consumer", "streams"]


@pytest.fixture
def catalog() -> Catalog:
    return MemoryCatalog()


@pytest.fixture
def features(catalog: Catalog) -> Features:
    return Features(catalog, ALL_PROTOCOLS)


def test_a_new_cluster_has_the_levels_of_a_new_kafka(features: Features) -> None:
    assert {name: features.level(name) for name in SUPPORTED} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 0,  # the one that is not served
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    "update",
    [
        Update("share.version", 0, SAFE_DOWNGRADE),
        Update("share.version", 0, UNSAFE_DOWNGRADE),
        Update("share.version", 1, UPGRADE),
        Update("share.version", 1, SAFE_DOWNGRADE),
        Update("group.version", 0, SAFE_DOWNGRADE),
        Update("transaction.version", 1, SAFE_DOWNGRADE),
        Update("transaction.version", 0, SAFE_DOWNGRADE),
        Update("eligible.leader.replicas.version", 0, SAFE_DOWNGRADE),
        Update("kraft.version", 1, UPGRADE),
        Update("metadata.version", 30, UPGRADE),
    ],
)
def test_a_level_that_is_supported_is_taken(features: Features, update: Update) -> None:
    features.update([update])
    assert features.level(update.feature) == update.level


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (Update("share.version", 0, UPGRADE), "Can't downgrade the version of this feature without"),
        (Update("share.version", 2, UPGRADE), "Only versions 0-1 are supported"),
        (Update("share.version", -1, SAFE_DOWNGRADE), "cannot be less than 0"),
        (Update("share.version", 0, 0), "does not support the given upgrade type"),
        (Update("share.version", 0, 9), "does not support the given upgrade type"),
        (Update("nope", 1, UPGRADE), "Feature nope not found"),
        (Update("nope", 0, SAFE_DOWNGRADE), "Feature nope not found"),
        (Update("kraft.version", 0, SAFE_DOWNGRADE), "Can't downgrade the version of this feature"),
        (Update("metadata.version", 29, SAFE_DOWNGRADE), "might delete metadata"),
        (Update("metadata.version", 29, UNSAFE_DOWNGRADE), "might delete metadata"),
        (Update("streams.version", 1, UPGRADE), "does not serve the Streams group protocol"),
    ],
)
def test_any_other_level_is_refused(features: Features, update: Update, reason: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=reason):
        features.update([update])


def test_what_was_lowered_can_be_raised_but_not_as_a_downgrade(features: Features) -> None:
    features.update([Update("share.version", 0, SAFE_DOWNGRADE)])
    with pytest.raises(InvalidUpdateVersion, match="Can't downgrade to a newer version"):
        features.update([Update("share.version", 1, SAFE_DOWNGRADE)])
    features.update([Update("share.version", 1, UPGRADE)])
    assert features.level("share.version") == 1


def test_updates_are_made_all_or_none_and_the_last_of_one_feature_counts(features: Features) -> None:
    with pytest.raises(InvalidUpdateVersion, match=r"version 7 for feature group\.version"):
        features.update([Update("share.version", 0, SAFE_DOWNGRADE), Update("group.version", 7, UPGRADE)])
    assert features.level("share.version") == 1
    features.update([Update("share.version", 0, SAFE_DOWNGRADE), Update("share.version", 1, UPGRADE)])
    assert features.level("share.version") == 1


def test_changes_outlive_the_broker_and_raise_the_epoch(catalog: Catalog, features: Features) -> None:
    notified: list[int] = []
    features.listeners.append(lambda: notified.append(features.level("share.version")))
    features.update([Update("share.version", 0, SAFE_DOWNGRADE)], validate_only=True)
    features.update([Update("share.version", 1, UPGRADE)])
    assert (features.epoch, notified) == (1, [])
    features.update([Update("share.version", 0, SAFE_DOWNGRADE)])
    features.update([Update("transaction.version", 1, SAFE_DOWNGRADE)])
    assert (features.epoch, notified) == (3, [0, 0])
    again = Features(catalog, ALL_PROTOCOLS)
    assert (again.level("share.version"), again.level("transaction.version"), again.epoch) == (0, 1, 3)


class TestAnApiIsServed:
    def test_while_its_feature_is_above_zero(self, features: Features) -> None:
        assert all(features.serves(key) for key in ApiKey)
        features.update([Update("share.version", 0, SAFE_DOWNGRADE)])
        assert not features.serves(ApiKey.SHARE_FETCH)
        assert features.serves(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        features.update([Update("share.version", 1, UPGRADE), Update("group.version", 0, SAFE_DOWNGRADE)])
        assert features.serves(ApiKey.SHARE_FETCH)
        assert not features.serves(ApiKey.CONSUMER_GROUP_DESCRIBE)

    def test_of_consumer_groups_only_where_their_protocol_is_named(self, catalog: Catalog) -> None:
        features = Features(catalog, ["classic", "share", "streams"])
        assert not features.serves(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        assert not features.serves(ApiKey.CONSUMER_GROUP_DESCRIBE)
        assert features.serves(ApiKey.JOIN_GROUP)

    def test_of_share_groups_whether_their_protocol_is_named_or_not(self, catalog: Catalog) -> None:
        assert Features(catalog, ["classic"]).serves(ApiKey.SHARE_GROUP_HEARTBEAT)
