"""Configs set at run time: checked, remembered, and effective at once."""

from __future__ import annotations

import pytest

from penstock.broker.config import ALL_BROKERS, BrokerConfig, ConfigError, Configs
from penstock.catalog.contract import Catalog
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
    configs.set_broker(ALL_BROKERS, {"message.max.bytes": "60"})
    configs.set_broker("3", {"message.max.bytes": "70"})
    assert heard == [60, 70]
    again = _configs(catalog)
    assert again.resolve_topic({})["max.message.bytes"] == 70
    assert again.broker_names() == ["", "3"]
    assert again.broker_overrides("3") == {"message.max.bytes": "70"}
    again.set_broker("3", {})
    assert again.resolve_topic({})["max.message.bytes"] == 60
    assert again.broker_names() == [""]


def test_what_is_refused_changes_nothing(catalog: Catalog) -> None:
    configs = _configs(catalog)
    with pytest.raises(ConfigError):
        configs.set_broker("3", {"message.max.bytes": "-1"})
    with pytest.raises(ConfigError, match="Unexpected broker id, expected 3, but received 4"):
        configs.set_broker("4", {"message.max.bytes": "1"})
    with pytest.raises(ConfigError):
        configs.set_group("g", {"nope": "1"})
    assert configs.broker.message_max_bytes == 50
    assert _configs(catalog).broker_names() == _configs(catalog).group_names() == []


def test_broker_entries_are_of_this_broker_or_of_all(catalog: Catalog) -> None:
    configs = _configs(catalog)
    configs.set_broker(ALL_BROKERS, {"message.max.bytes": "60"})
    assert [entry.name for entry in configs.broker_entries(ALL_BROKERS)] == ["message.max.bytes"]
    assert len(configs.broker_entries("3")) > 300


def test_a_groups_configs_are_remembered(catalog: Catalog) -> None:
    _configs(catalog).set_group("g", {"share.auto.offset.reset": "earliest"})
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
