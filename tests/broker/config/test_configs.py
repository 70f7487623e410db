"""Configs set at run time: checked, remembered, and effective at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.broker.config import ALL_BROKERS, BrokerConfig, ConfigError, Configs
from penstock.broker.config.client_metrics import DEFAULT_SUBSCRIPTION
from penstock.catalog.contract import Catalog, ConfigChange, replaced_by
from penstock.catalog.memory import MemoryCatalog


@pytest.fixture
def catalog() -> Catalog:
    return MemoryCatalog()


def _configs(catalog: Catalog) -> Configs:
    return Configs(BrokerConfig({"node.id": "3", "message.max.bytes": "50"}), catalog)


def test_what_is_set_for_a_broker_counts_at_once_and_after_a_restart(catalog: Catalog) -> None:
    configs = _configs(catalog)
    heard: list[int] = []
    configs.listeners.append(lambda: heard.append(configs.broker.message_max_bytes))
    configs.change_broker(ALL_BROKERS, replaced_by({"message.max.bytes": "60"}))
    configs.change_broker("3", replaced_by({"message.max.bytes": "70"}))
    assert heard == [60, 70]
    again = _configs(catalog)
    assert again.resolve_topic({})["max.message.bytes"] == 70
    assert again.broker_names() == ["", "3"]
    assert again.broker_overrides("3") == {"message.max.bytes": "70"}
    again.change_broker("3", replaced_by({}))
    assert again.resolve_topic({})["max.message.bytes"] == 60
    assert again.broker_names() == [""]


def test_what_is_refused_changes_nothing(catalog: Catalog) -> None:
    configs = _configs(catalog)
    with pytest.raises(ConfigError):
        configs.change_broker("3", replaced_by({"message.max.bytes": "-1"}))
    with pytest.raises(ConfigError, match="Unexpected broker id, expected 3, but received 4"):
        configs.change_broker("4", replaced_by({"message.max.bytes": "1"}))
    with pytest.raises(ConfigError):
        configs.change_group("g", replaced_by({"nope": "1"}))
    assert configs.broker.message_max_bytes == 50
    assert _configs(catalog).broker_names() == _configs(catalog).group_names() == []


def test_broker_entries_are_of_this_broker_or_of_all(catalog: Catalog) -> None:
    configs = _configs(catalog)
    configs.change_broker(ALL_BROKERS, replaced_by({"message.max.bytes": "60"}))
    assert [entry.name for entry in configs.broker_entries(ALL_BROKERS)] == ["message.max.bytes"]
    assert len(configs.broker_entries("3")) > 300


def test_a_groups_configs_are_remembered(catalog: Catalog) -> None:
    _configs(catalog).change_group("g", replaced_by({"share.auto.offset.reset": "earliest"}))
    configs = _configs(catalog)
    assert configs.group_names() == ["g"]
    assert configs.group_overrides("g") == {"share.auto.offset.reset": "earliest"}
    assert configs.resolve_group("g")["share.auto.offset.reset"] == "earliest"
    assert configs.resolve_group("other")["share.auto.offset.reset"] == "latest"
    assert configs.group_entries("g", ["share.auto.offset.reset"])[0].source == 8


def test_topics_are_checked(catalog: Catalog) -> None:
    configs = _configs(catalog)
    configs.check_topic({"retention.ms": "1"})
    with pytest.raises(ConfigError):
        configs.check_topic({"retention.ms": "x"})
    assert configs.topic_entries({"retention.ms": "1"}, ["retention.ms"])[0].value == "1"


class TestBesideAnotherBroker:
    """Two brokers share a catalog, and the second has not heard of what the first has changed."""

    @pytest.fixture
    def one(self, catalog: Catalog) -> Configs:
        return _configs(catalog)

    @pytest.fixture
    def two(self, catalog: Catalog, one: Configs) -> Configs:
        return _configs(catalog)

    def test_what_the_other_has_changed_stays_and_is_known_with_the_next_change(
        self, one: Configs, two: Configs
    ) -> None:
        one.change_broker(ALL_BROKERS, adding("message.max.bytes", "60"))
        one.change_group("g", adding("share.auto.offset.reset", "earliest"))
        one.change_client_metrics("slow", adding("interval.ms", "100"))
        two.change_broker(ALL_BROKERS, adding("log.retention.ms", "7"))
        two.change_group("g", adding("share.session.timeout.ms", "50000"))
        two.change_client_metrics("slow", adding("metrics", "*"))
        for configs in (two, _configs(two._catalog)):
            assert configs.broker_overrides(ALL_BROKERS) == {"message.max.bytes": "60", "log.retention.ms": "7"}
            assert configs.broker.message_max_bytes == 60
            assert configs.resolve_group("g")["share.auto.offset.reset"] == "earliest"
            assert configs.client_metrics_overrides("slow") == {"interval.ms": "100", "metrics": "*"}

    def test_what_is_refused_together_with_the_change_of_the_other_is_not_made(
        self, one: Configs, two: Configs
    ) -> None:
        one.change_group("g", adding("consumer.heartbeat.interval.ms", "9000"))

        def break_what_is_there(found: Mapping[str, str]) -> Mapping[str, str]:
            return dict.fromkeys(found, "x")

        two.check_group(break_what_is_there({}))
        with pytest.raises(ConfigError):
            two.change_group("g", break_what_is_there)
        assert _configs(two._catalog).group_overrides("g") == {"consumer.heartbeat.interval.ms": "9000"}

    def test_the_default_subscription_that_the_other_has_removed_is_not_brought_back(self, catalog: Catalog) -> None:
        one, two = (
            Configs(BrokerConfig({"node.id": "3", "penstock.metrics.listen": "127.0.0.1:0"}), catalog) for _ in range(2)
        )
        one.change_client_metrics(DEFAULT_SUBSCRIPTION, replaced_by({}))
        assert two.client_metrics_overrides(DEFAULT_SUBSCRIPTION)["interval.ms"] == "60000"
        two.change_client_metrics(DEFAULT_SUBSCRIPTION, adding("metrics", "x."))
        assert two.client_metrics_overrides(DEFAULT_SUBSCRIPTION) == {"metrics": "x."}

    def test_a_subscription_that_the_other_has_changed_has_a_new_version(self, one: Configs, two: Configs) -> None:
        before = two.client_metrics_version
        two.reload()
        assert two.client_metrics_version == before
        one.change_client_metrics("slow", adding("interval.ms", "100"))
        two.reload()
        assert two.client_metrics_version > before


def adding(name: str, value: str) -> ConfigChange:
    return lambda found: {**found, name: value}
