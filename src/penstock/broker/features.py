"""The features of the cluster: the levels that are supported, and those that are finalized (KIP-584).

Clients read the finalized levels in ApiVersions and choose by them: a producer uses the newer transaction protocol
(KIP-890) only where transaction.version is 2. UpdateFeatures moves a level down and up again. The catalog keeps what
was set, and an epoch that rises with each change, by which a client tells a newer answer from an older one.

The APIs of a feature at level 0 answer UNSUPPORTED_VERSION, and are advertised nevertheless, as in Kafka. The consumer
group protocol is also switched off where group.coordinator.rebalance.protocols leaves it out. Of the other words there,
Kafka insists on classic, and share has no effect: share groups depend on share.version alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.broker.storage_errors import changing
from penstock.catalog.contract import Catalog
from penstock.wire.api import ApiKey
from penstock.wire.errors import InvalidUpdateVersion

GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
TRANSACTION_VERSION = "transaction.version"

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(NamedTuple):
    lowest: int
    highest: int
    initial: int
    """The finalized level of a new cluster; that of Kafka 4.3, save for what is not served."""


SUPPORTED: dict[str, Feature] = {
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    GROUP_VERSION: Feature(0, 1, 1),
    "kraft.version": Feature(0, 1, 1),
    "metadata.version": Feature(7, 30, 30),
    SHARE_VERSION: Feature(0, 1, 1),
    "streams.version": Feature(0, 1, 0),
    TRANSACTION_VERSION: Feature(0, 2, 2),
}

_INITIAL = {name: feature.initial for name, feature in SUPPORTED.items()}

# Levels that stay what they are: Kafka does not lower the first two either, and Streams groups are not served.
_FIXED = {
    "kraft.version": "Can't downgrade the version of this feature.",
    "metadata.version": "Refusing to perform the requested downgrade because it might delete metadata information.",
    "streams.version": "Penstock does not serve the Streams group protocol.",
}

_APIS = {
    GROUP_VERSION: frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}),
    SHARE_VERSION: frozenset(
        {
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        }
    ),
}


class Update(NamedTuple):
    feature: str
    level: int
    upgrade_type: int


class Features:
    def __init__(self, catalog: Catalog, rebalance_protocols: Collection[str]) -> None:
        self._catalog = catalog
        self._has_consumer_protocol = "consumer" in rebalance_protocols
        self._levels = _INITIAL | catalog.features()
        self.epoch = catalog.features_epoch()
        self.listeners: list[Callable[[], None]] = []
        """Called after a level has changed."""

    def reload(self) -> None:
        """Other brokers have changed levels."""
        self.epoch = self._catalog.features_epoch()
        levels = self._levels | self._catalog.features()
        if levels != self._levels:
            self._levels = levels
            for listener in self.listeners:
                listener()

    def level(self, feature: str) -> int:
        return self._levels[feature]

    def serves(self, key: ApiKey) -> bool:
        """Whether the feature that an API belongs to, if any, is switched on."""
        if key in _APIS[GROUP_VERSION] and not self._has_consumer_protocol:
            return False
        return all(self._levels[feature] > 0 for feature, keys in _APIS.items() if key in keys)

    def update(self, updates: Iterable[Update], *, validate_only: bool = False) -> None:
        """Change levels, all or none. Raises InvalidUpdateVersion for the first that cannot be changed, and what the
        client is told when the catalog refuses."""
        latest = {update.feature: update for update in updates}
        if validate_only or not latest:
            _check(latest, self._levels)
            return

        def change(found: Mapping[str, int]) -> Mapping[str, int]:
            levels = {**_INITIAL, **found}
            _check(latest, levels)
            return {
                update.feature: update.level for update in latest.values() if update.level != levels[update.feature]
            }

        with changing("the levels of features"):
            self.epoch = self._catalog.change_features(change)
        changed = {update.feature: update.level for update in latest.values()}
        if self._levels | changed != self._levels:
            self._levels |= changed
            for listener in self.listeners:
                listener()


def _check(updates: Mapping[str, Update], levels: Mapping[str, int]) -> None:
    """Raises InvalidUpdateVersion for the first that cannot be made."""
    for update in updates.values():
        wrong = _fault(update, levels)
        if wrong:
            raise InvalidUpdateVersion(
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.feature}. {wrong}"
            )


def _fault(update: Update, levels: Mapping[str, int]) -> str:
    """Why a level cannot become what an update asks for, checked in Kafka's order; empty if it can."""
    feature = SUPPORTED.get(update.feature)
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Feature {update.feature} not found."
    if not feature.lowest <= update.level <= feature.highest:
        return f"Only versions {feature.lowest}-{feature.highest} are supported."
    current = levels[update.feature]
    if update.level < current and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if update.level > current and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return _FIXED.get(update.feature, "") if update.level != current else ""
