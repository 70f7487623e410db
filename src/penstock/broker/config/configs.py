"""All configs of a running broker: the ones it was started with, and the ones that the catalog remembers.

What is set at run time is checked, written to the catalog, and only then counts; what the catalog refuses raises the
KafkaError that the client is told. Whoever has worked something out from
configs (a topic's log, say) is told through `listeners` to do so again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from penstock.broker.config.client_metrics import (
    DEFAULT_SUBSCRIPTION,
    DEFAULT_SUBSCRIPTION_CONFIGS,
    REMOVED,
    check_client_metrics,
    client_metrics_entries,
)
from penstock.broker.config.definitions import ConfigError, Value
from penstock.broker.config.resolver import BrokerConfig, Entry, GroupConfigs, TopicConfigs, check_dynamic
from penstock.broker.storage_errors import changing
from penstock.catalog.contract import Catalog, ConfigChange
from penstock.wire.config_resources import ResourceType

ALL_BROKERS = ""
"""The name of the resource whose configs hold for every broker."""


class Configs:
    def __init__(self, broker: BrokerConfig, catalog: Catalog) -> None:
        self.broker = broker
        self.listeners: list[Callable[[], None]] = []
        """Called after configs of the broker changed: those of topics and groups that rest on them may have, too."""
        self.checks: list[Callable[[BrokerConfig], None]] = []
        """Called with the configs of the broker as they would be; each raises ConfigError if it could not go on."""
        self._catalog = catalog
        self._brokers = catalog.config_resources(ResourceType.BROKER)
        self._groups = catalog.config_resources(ResourceType.GROUP)
        self._client_metrics = catalog.config_resources(ResourceType.CLIENT_METRICS)
        self.client_metrics_version = 0
        """Counts the changes of client metrics subscriptions."""
        self._topic_configs = TopicConfigs(broker)
        self._group_configs = GroupConfigs(broker)
        self._apply()

    def reload(self) -> None:
        """Other brokers have changed configs."""
        before, client_metrics_before = self._brokers, self._client_metrics
        self._brokers = self._catalog.config_resources(ResourceType.BROKER)
        self._groups = self._catalog.config_resources(ResourceType.GROUP)
        self._client_metrics = self._catalog.config_resources(ResourceType.CLIENT_METRICS)
        if self._client_metrics != client_metrics_before:
            self.client_metrics_version += 1
        if self._brokers != before:
            self._apply()
            for listener in self.listeners:
                listener()

    # -- topics: their own configs are kept with the topic ---------------------------------------------------------

    def resolve_topic(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """The value of every config of a topic that has set `overrides`."""
        return self._topic_configs.resolve(overrides)

    def check_topic(self, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError unless a topic may have these configs."""
        self._topic_configs.check(overrides)

    def topic_entries(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Entry]:
        return self._topic_configs.entries(overrides, names)

    # -- brokers ---------------------------------------------------------------------------------------------------

    def broker_overrides(self, name: str) -> dict[str, str]:
        """What was set at run time for the broker of that id, or under ALL_BROKERS."""
        return dict(self._brokers.get(name, {}))

    def broker_names(self) -> list[str]:
        """Brokers with configs that were set at run time, ALL_BROKERS among them."""
        return list(self._brokers)

    def broker_entries(self, name: str, names: Collection[str] | None = None) -> list[Entry]:
        return self.broker.cluster_entries(names) if name == ALL_BROKERS else self.broker.entries(names)

    def check_broker(self, name: str, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError unless these may be set at run time for that broker or for all."""
        if name not in (ALL_BROKERS, str(self.broker.node_id)):
            raise ConfigError(f"Unexpected broker id, expected {self.broker.node_id}, but received {name}")
        check_dynamic(overrides, for_all_brokers=name == ALL_BROKERS)
        if self.checks:
            brokers = {ALL_BROKERS: {}, str(self.broker.node_id): {}, **self._brokers, name: overrides}
            trial = BrokerConfig(self.broker.static)
            trial.set_dynamic(brokers[ALL_BROKERS], brokers[str(self.broker.node_id)])
            for check in self.checks:
                check(trial)

    def change_broker(self, name: str, change: ConfigChange) -> None:
        """Change what was set at run time for a broker, or for all; it counts at once."""
        checked = _checked(change, partial(self.check_broker, name))
        self._change(ResourceType.BROKER, name, checked, self._brokers)
        self._apply()
        for listener in self.listeners:
            listener()

    # -- groups ----------------------------------------------------------------------------------------------------

    def group_overrides(self, group: str) -> dict[str, str]:
        return dict(self._groups.get(group, {}))

    def group_names(self) -> list[str]:
        """Groups with configs of their own."""
        return list(self._groups)

    def resolve_group(self, group: str) -> dict[str, Value]:
        """The value of every config of a group."""
        return self._group_configs.resolve(self._groups.get(group, {}))

    def group_entries(self, group: str, names: Collection[str] | None = None) -> list[Entry]:
        return self._group_configs.entries(self._groups.get(group, {}), names)

    def check_group(self, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError unless a group may have these configs."""
        self._group_configs.check(overrides)

    def change_group(self, group: str, change: ConfigChange) -> None:
        self._change(ResourceType.GROUP, group, _checked(change, self.check_group), self._groups)

    # -- client metrics subscriptions ------------------------------------------------------------------------------

    def client_metrics_names(self) -> list[str]:
        return list(self._subscriptions())

    def client_metrics_overrides(self, name: str) -> dict[str, str]:
        return dict(self._in_effect(name, self._client_metrics.get(name, {})))

    def _subscriptions(self) -> dict[str, dict[str, str]]:
        """Those that were set, and the default one where there is an endpoint to look at what clients push."""
        kept = self._client_metrics
        if self.broker.measures and DEFAULT_SUBSCRIPTION not in kept:
            return {DEFAULT_SUBSCRIPTION: DEFAULT_SUBSCRIPTION_CONFIGS, **kept}
        return {name: configs for name, configs in kept.items() if configs != REMOVED}

    def _in_effect(self, name: str, kept: Mapping[str, str]) -> Mapping[str, str]:
        """What a subscription has, given what the catalog keeps of it."""
        if name == DEFAULT_SUBSCRIPTION and not kept and self.broker.measures:
            return DEFAULT_SUBSCRIPTION_CONFIGS
        return {} if kept == REMOVED else kept

    def client_metrics_entries(self, name: str, names: Collection[str] | None = None) -> list[Entry]:
        """What a subscription has; the defaults for one that does not exist."""
        return client_metrics_entries(self._subscriptions().get(name, {}), names)

    def change_client_metrics(self, name: str, change: ConfigChange) -> None:
        """Change a subscription's configs; without any it ceases to exist."""

        def kept(found: Mapping[str, str]) -> Mapping[str, str]:
            configs = change(self._in_effect(name, found))
            check_client_metrics(configs)
            if name == DEFAULT_SUBSCRIPTION and not configs:
                return REMOVED  # or the next start would bring it back
            return configs

        self._change(ResourceType.CLIENT_METRICS, name, kept, self._client_metrics)
        self.client_metrics_version += 1

    def _change(self, kind: ResourceType, name: str, change: ConfigChange, known: dict[str, dict[str, str]]) -> None:
        with changing(f"the configs of {kind.name} {name!r}"):
            overrides = self._catalog.change_configs(kind, name, change)
        if overrides:
            known[name] = overrides
        else:
            known.pop(name, None)

    def _apply(self) -> None:
        self.broker.set_dynamic(self._brokers.get(ALL_BROKERS, {}), self._brokers.get(str(self.broker.node_id), {}))
        self._topic_configs.refresh()


def _checked(change: ConfigChange, check: Callable[[Mapping[str, str]], None]) -> ConfigChange:
    def checked(found: Mapping[str, str]) -> Mapping[str, str]:
        overrides = change(found)
        check(overrides)
        return overrides

    return checked
