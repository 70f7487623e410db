"""The parts of a broker are built in one place, each when it is needed, and find each other."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import pytest

from penstock.broker.connection import Connection
from penstock.broker.features import SAFE_DOWNGRADE, SHARE_VERSION, Update
from penstock.broker.parts import Parts
from penstock.broker.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from penstock.wire.api import ApiKey
from tests.broker.memory_parts import MemoryFoundation

LATE = ("groups", "transactions", "share_groups", "transactional_writes", "cleaning")


def built(parts: Parts) -> set[str]:
    return {name for name in LATE if parts.is_built(name)}


@pytest.fixture
def foundation() -> MemoryFoundation:
    return MemoryFoundation()


@pytest.fixture
def parts(foundation: MemoryFoundation) -> Parts:
    return foundation.parts()


class TestBuilding:
    def test_a_new_broker_begins_without_coordinators(self, parts: Parts) -> None:
        parts.open()
        assert built(parts) == set()

    @pytest.mark.parametrize(
        ("topic", "coordinators"),
        [
            (OFFSETS_TOPIC, {"groups"}),
            (TRANSACTIONS_TOPIC, {"transactions"}),
            (SHARE_STATE_TOPIC, {"share_groups"}),
        ],
    )
    def test_coordinators_that_have_state_are_loaded_at_the_start(
        self, foundation: MemoryFoundation, topic: str, coordinators: set[str]
    ) -> None:
        foundation.parts().topics.create(topic, 2, {})
        foundation.storage.close()
        parts = foundation.parts()
        parts.open()
        assert built(parts) == coordinators

    def test_a_part_is_built_once(self, parts: Parts) -> None:
        assert parts.groups is parts.groups
        assert built(parts) == {"groups"}
        assert len(parts.topics.on_topic_deleted) == len(set(parts.topics.on_topic_deleted))

    def test_all_of_them_can_be_built_so_that_everything_is_shown(self, parts: Parts) -> None:
        parts.open()
        parts.build_all()
        assert built(parts) == {"groups", "transactions", "share_groups", "cleaning"}

    def test_a_coordinator_can_be_asked_for_while_it_is_being_started(
        self, parts: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from penstock.broker.group_coordinator import GroupCoordinator

        seen: list[object] = []
        monkeypatch.setattr(GroupCoordinator, "start", lambda coordinator: seen.append(parts.groups is coordinator))
        parts.build("groups")
        assert seen == [True]

    def test_what_is_not_used_is_not_even_imported(self) -> None:
        program = (
            "import sys\n"
            "from tests.broker.memory_parts import MemoryFoundation\n"
            "parts = MemoryFoundation().parts()\n"
            "parts.open()\n"
            "parts.topics.create('orders', 1, {})\n"
            "parts._clean()\n"
            "late = ['group_coordinator', 'transaction_coordinator', 'share.groups', 'admission', 'cleaning']\n"
            "assert not [name for name in late if f'penstock.broker.{name}' in sys.modules]\n"
            "parts.build_all()\n"
            "assert 'penstock.broker.share.groups' in sys.modules\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


class TestJoints:
    def test_compaction_begins_with_the_first_compacted_topic(self, parts: Parts) -> None:
        parts.topics.create("plain", 1, {})
        parts._clean()
        assert not parts.is_built("cleaning")
        parts.topics.create("compacted", 1, {"cleanup.policy": "compact"})
        parts._clean()
        assert parts.is_built("cleaning")

    def test_everybody_hears_of_a_closed_connection_though_one_fails(self, parts: Parts) -> None:
        heard: list[object] = []

        def fail(_: object) -> None:
            raise ValueError("a fault of this one alone")

        parts.on_connection_closed += [fail, heard.append]
        connection = cast(Connection, object())
        parts.dispatcher.connection_closed(connection)
        assert heard == [connection]

    def test_what_is_served_is_looked_up_anew_when_the_level_of_a_feature_changes(self, parts: Parts) -> None:
        before = parts.dispatcher.find_handler(ApiKey.SHARE_FETCH)
        forgotten: list[str] = []
        parts.features.listeners.append(lambda: forgotten.append("heard"))
        parts.dispatcher._routes[0] = cast(object, "a route")  # type: ignore[assignment]
        parts.features.update([Update(SHARE_VERSION, 0, SAFE_DOWNGRADE)])
        assert forgotten == ["heard"]
        assert parts.dispatcher._routes == {}
        assert parts.dispatcher.find_handler(ApiKey.SHARE_FETCH) != before

    def test_appends_that_are_late_are_ended_by_the_sweep(self, foundation: MemoryFoundation) -> None:
        parts = foundation.parts({"penstock.acks.all.flush": "true"})
        topic = parts.topics.create("orders", 1, {})
        foundation.storage.hold_commits()
        notified: list[object] = []
        parts.durability.when_durable([(topic.hosted(0).log, 1)], notified.append, timeout_ms=1000)
        parts.upkeep.start()
        foundation.world.pass_ms(5000)
        assert len(notified) == 1

    def test_only_coordinators_that_were_built_are_stopped(self, parts: Parts) -> None:
        parts.build("groups")
        parts.stop_coordinators()
        assert built(parts) == {"groups"}

    def test_metrics_show_every_coordinator_and_build_none(self, parts: Parts) -> None:
        name = 'kafka_server_group_coordinator_metrics_group_count{protocol="share"} 0'
        assert name in parts.metrics.text().splitlines()
        assert built(parts) == set()
        parts.build("groups")
        assert parts.metrics.text().splitlines().count(name) == 1
