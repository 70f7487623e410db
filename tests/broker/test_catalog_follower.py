"""What other brokers change in the catalog is applied here, soon and until it has succeeded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from penstock.broker.catalog_follower import POLL_SECONDS, CatalogFollower
from penstock.broker.world import World
from penstock.catalog.contract import CatalogError, replaced_by
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import Changes, HostAndPort, Kind, Move, Placement
from penstock.wire.config_resources import ResourceType
from tests.broker.simulated_world import SimulatedWorld


class Stage:
    def __init__(self, max_age_seconds: float = 0.0) -> None:
        self.world = SimulatedWorld()
        self.catalog = MemoryCatalog()
        self.applied: list[Kind] = []
        self.failing: set[Kind] = set()
        apply: dict[Kind, Callable[[], None]] = {
            kind: partial(self.apply, kind) for kind in Kind if kind is not Kind.PARTITIONS
        }
        self.follower = CatalogFollower(self.catalog, cast(World, self.world), apply, max_age_seconds)

    def apply(self, kind: Kind) -> None:
        if kind in self.failing:
            raise CatalogError("away")
        self.applied.append(kind)
        self.follower.look()  # as something does that is looked up in vain


def test_changes_are_applied_within_a_poll_and_once() -> None:
    stage = Stage()
    stage.follower.start()
    stage.catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "b"}))
    stage.world.pass_ms(int(POLL_SECONDS * 1000))
    assert stage.applied == [Kind.CONFIGS]
    stage.world.pass_ms(int(POLL_SECONDS * 1000) * 3)
    assert stage.applied == [Kind.CONFIGS]
    stage.follower.stop()
    stage.catalog.change_features(replaced_by({"share.version": 1}))
    stage.world.pass_ms(int(POLL_SECONDS * 1000) * 3)
    assert stage.applied == [Kind.CONFIGS]


def test_leaders_are_applied_with_the_topics_after_brokers_and_configs() -> None:
    stage = Stage()
    stage.catalog.create_topic("orders", bytes(16), 1, {}, [Placement(1, (1,))])
    stage.catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "b"}))
    stage.catalog.register_broker(1, "i", None, {"PLAINTEXT": HostAndPort("localhost", 1)})
    stage.follower.look()
    assert stage.applied == [Kind.BROKERS, Kind.CONFIGS, Kind.TOPICS]
    stage.applied.clear()
    stage.catalog.move_partitions([Move(bytes(16), 0, Placement(2, (2,)))])
    stage.follower.look()
    assert stage.applied == [Kind.TOPICS]


def test_what_could_not_be_applied_is_tried_again() -> None:
    stage = Stage()
    stage.failing = {Kind.FEATURES}
    stage.catalog.change_features(replaced_by({"share.version": 1}))
    stage.catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "b"}))
    stage.follower.look()
    stage.follower.look()
    assert stage.applied == [Kind.CONFIGS]
    stage.failing.clear()
    stage.follower.look()
    assert stage.applied == [Kind.CONFIGS, Kind.FEATURES]


def test_a_catalog_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.follower.start()
    stage.catalog.change_features(replaced_by({"share.version": 1}))

    def away(version: int) -> Changes:
        raise CatalogError("away")

    with monkeypatch.context() as context:
        context.setattr(stage.catalog, "changes_since", away)
        stage.world.pass_ms(int(POLL_SECONDS * 1000) * 2)
    assert stage.applied == []
    stage.world.pass_ms(int(POLL_SECONDS * 1000))
    assert stage.applied == [Kind.FEATURES]


def test_where_looking_costs_something_it_is_not_done_for_every_request() -> None:
    stage = Stage(max_age_seconds=10.0)
    stage.follower.look()
    stage.catalog.change_features(replaced_by({"share.version": 1}))
    stage.follower.look()
    assert stage.applied == []
    stage.world.pass_ms(10_000)
    stage.follower.look()
    assert stage.applied == [Kind.FEATURES]
