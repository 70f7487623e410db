"""Which of several settings counts.

A topic's config is its own; or else what the broker's config of the same meaning says (its *synonym*), which may have
been set at run time for this broker, at run time for all brokers, or when the broker was started; or else Kafka's
default. A group's works the same way. DescribeConfigs shows not only the winner but the whole list, so both come from
the same layers here.

Of configs that say the same in different units (`log.retention.ms`, `.minutes`, `.hours`) the finest one that is set
counts; setting any of them at run time replaces what the file said about all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from penstock.broker.config import group as group_table
from penstock.broker.config import topic as topic_table
from penstock.broker.config.broker import BROKER, SYNONYMS
from penstock.broker.config.definitions import ConfigError, ConfigType, Definition, Scope, Value, format_value
from penstock.broker.config.group import GROUP
from penstock.broker.config.listeners import (
    ListenerConfig,
    check_listeners,
    definition_of,
    holds_for_listeners,
    listener_of_brokers,
)
from penstock.broker.config.refusals import check_authorizer, check_promises, check_promises_at_run_time
from penstock.broker.config.topic import TOPIC
from penstock.broker.config.values import BrokerValues

OWN_PREFIX = "penstock."
_FIRST_NODE = "1"
_NOT_USED = "Accepted because Kafka has it; Penstock has no use for it."
_SYNONYMS_OF = {name: names for names in SYNONYMS for name in names}
_ATTRIBUTES = [(definition, definition.name.replace(".", "_")) for definition in BROKER.values() if definition.is_used]


class Source(IntEnum):
    """Kafka's numbers for where a value comes from, as DescribeConfigs reports them."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One config as DescribeConfigs answers it. A sensitive one has no value."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    is_sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: list[Synonym]


class BrokerConfig(BrokerValues):
    """The broker's own configs, as typed attributes and in layers.

    A name that is neither Kafka's nor Penstock's is accepted, because Kafka accepts it; so is one that Penstock has no
    use for. `unknown` and `unused` list them for a note to the user. One that promises what is not done is refused.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static = dict(static or {})
        self.dynamic_default: dict[str, str] = {}
        self.dynamic_broker: dict[str, str] = {}
        _number_the_node(self.static)
        for name, value in self.static.items():
            check_static(name, value)
        check_promises(self.static)
        check_listeners(self.static)
        check_authorizer(self.static)
        self.listener_of_brokers = listener_of_brokers(self.static)
        """Through which brokers reach each other; empty where none is chosen."""
        self.unused = sorted(name for name in self.static if _is_unused(name))
        self.unknown = sorted(name for name in self.static if definition_of(name) is None)
        self._merged: dict[str, str]
        self._refresh()

    def settle(self, name: str, value: str) -> None:
        """Replace a value that left something open, such as port 0, by what it came to."""
        self.static[name] = value
        self._refresh()

    def set_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Replace the configs that were set at run time, for all brokers and for this one."""
        self.dynamic_default = dict(default)
        self.dynamic_broker = dict(broker)
        self._refresh()

    @property
    def measures(self) -> bool:
        """Whether somebody wants to see what the broker measures with every request."""
        return bool(self.penstock_metrics_listen or self.penstock_otlp_endpoint)

    def value(self, name: str) -> Value | None:
        """What counts for `name`."""
        text = self._merged.get(name)
        definition = BROKER.get(name) or definition_of(name)
        assert definition is not None
        return definition.default_value() if text is None else definition.parse(text)

    def text(self, name: str) -> str | None:
        """What `name` was set to, as it was written; None if it was not."""
        return self._merged.get(name)

    def is_set(self, name: str) -> bool:
        return name in self._merged

    def for_listener(self, listener_name: str) -> ListenerConfig:
        """The configs that hold for one listener, also those that change later."""
        return ListenerConfig(self, listener_name)

    def entries(self, names: Collection[str] | None = None) -> list[Entry]:
        """All configs of this broker, or those of `names` that exist, as DescribeConfigs answers for its id."""
        shown = [name for name, definition in BROKER.items() if not definition.is_internal or name in self._merged]
        unknown = sorted(name for name in self._merged if name not in BROKER)
        return [self._entry(name) for name in _chosen([*shown, *unknown], names)]

    def cluster_entries(self, names: Collection[str] | None = None) -> list[Entry]:
        """What was set at run time for all brokers, as DescribeConfigs answers for the empty name."""
        source = Source.DYNAMIC_DEFAULT_BROKER
        entries = []
        for name in _chosen(self.dynamic_default, names):
            entry = self._entry(name)
            value = None if entry.is_sensitive else self.dynamic_default[name]
            synonyms = [synonym for synonym in entry.synonyms if synonym.source is source]
            entries.append(
                Entry(
                    name,
                    value,
                    source if synonyms else Source.DEFAULT,
                    entry.read_only,
                    entry.is_sensitive,
                    entry.type,
                    entry.documentation,
                    synonyms,
                )
            )
        return entries

    def synonyms(self, name: str) -> list[Synonym]:
        """Every setting that could give `name` its value, the one that counts first, in Kafka's order."""
        names = _SYNONYMS_OF.get(name, (name,))
        definition = definition_of(name)
        is_sensitive = definition is None or definition.is_sensitive
        layers: tuple[tuple[Mapping[str, str], Source], ...] = (
            (self.dynamic_broker, Source.DYNAMIC_BROKER),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )
        found = [
            Synonym(each, None if is_sensitive else layer[each], source)
            for layer, source in layers
            for each in names
            if each in layer
        ]
        found += [
            Synonym(each, default, Source.DEFAULT)
            for each in names
            if each in BROKER and (default := BROKER[each].default) is not None
        ]
        # Kafka shows a synonym only from the config's own name on: what lies before it did not decide.
        while found and found[0].name != name:
            del found[0]
        return found

    def _entry(self, name: str) -> Entry:
        definition = definition_of(name)
        synonyms = self.synonyms(name)
        source = synonyms[0].source if synonyms else Source.DEFAULT
        if definition is None:
            return Entry(name, None, source, True, True, ConfigType.UNKNOWN, "", synonyms)
        return Entry(
            name,
            None if definition.is_sensitive else format_value(self.value(name)),
            source,
            definition.scope is Scope.READ_ONLY,
            definition.is_sensitive,
            definition.type,
            definition.documentation or _NOT_USED,
            synonyms,
        )

    def _refresh(self) -> None:
        merged = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name in layer:
                for synonym in _SYNONYMS_OF.get(name, ()):
                    merged.pop(synonym, None)
            merged.update(layer)
        self._merged = merged
        for definition, attribute in _ATTRIBUTES:
            value = self.value(definition.name)
            if definition.type is ConfigType.LIST:
                setattr(self, attribute, str(value).split(",") if value else [])
            else:
                setattr(self, attribute, value)


class TopicConfigs:
    """The configs of topics, above the broker's."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._base: dict[str, Value] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take over the broker's configs after they have changed."""
        self._base = {name: value for name in TOPIC if (value := self._inherited(name)) is not None}

    def resolve(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """The value of every config of a topic that has set `overrides`; a name that is unknown is left out."""
        values = dict(self._base)
        for name, text in overrides.items():
            if name in TOPIC:
                values[name] = TOPIC[name].parse(text)
        return values

    def check(self, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError, in Kafka's words, unless a topic may have these configs."""
        for name in overrides:
            if name not in TOPIC:
                raise ConfigError(f"Unknown topic config name: {name}")
        values = self.resolve(overrides)
        shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
        assert isinstance(shortest, int)
        assert isinstance(longest, int)
        if shortest > longest:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
            )
        if values["remote.storage.enable"]:
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )

    def entries(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Entry]:
        """The topic's configs as DescribeConfigs answers them."""
        values = self.resolve(overrides)
        shown = [name for name, definition in TOPIC.items() if not definition.is_internal or name in overrides]
        entries = []
        for name in _chosen(shown, names):
            synonyms = topic_table.BROKER_SYNONYMS.get(name)
            inherited = self._broker.synonyms(synonyms[0][0]) if synonyms else []
            entries.append(_entry(TOPIC[name], values.get(name), name in overrides, Source.TOPIC, inherited))
        return entries

    def _inherited(self, name: str) -> Value | None:
        synonyms = topic_table.BROKER_SYNONYMS.get(name, ())
        for synonym, factor in synonyms:
            if self._broker.is_set(synonym):
                value = self._broker.value(synonym)
                if factor == 1 or not isinstance(value, int):
                    return value
                return value * factor if value >= 0 else -1
        return TOPIC[name].default_value()


class GroupConfigs:
    """The configs of groups, above the broker's."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker

    def resolve(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """The value of every config of a group that has set `overrides`."""
        return {
            name: definition.parse(overrides[name]) if name in overrides else self._inherited(name)
            for name, definition in GROUP.items()
        }

    def check(self, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError, in Kafka's words, unless a group may have these configs."""
        for name in overrides:
            if name not in GROUP:
                raise ConfigError(f"Unknown group config name: {name}")
        values = self.resolve(overrides)
        for name, (least, most) in group_table.BROKER_BOUNDS.items():
            if name in overrides:
                self._check_bound(name, values[name], least, at_least=True)
                self._check_bound(name, values[name], most, at_least=False)
        for kind in ("consumer", "share", "streams"):
            timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            if _number(values[timeout]) <= _number(values[interval]):
                raise ConfigError(f"{timeout} must be greater than {interval}")

    def entries(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Entry]:
        """The group's configs as DescribeConfigs answers them."""
        values = self.resolve(overrides)
        entries = []
        shown = [name for name, definition in GROUP.items() if not definition.is_internal or name in overrides]
        for name in _chosen(shown, names):
            synonym = group_table.BROKER_SYNONYMS.get(name)
            if synonym:
                inherited = self._broker.synonyms(synonym)
            else:
                inherited = [Synonym(name, GROUP[name].default, Source.DEFAULT)]
            entries.append(_entry(GROUP[name], values[name], name in overrides, Source.GROUP, inherited))
        return entries

    def _inherited(self, name: str) -> Value:
        synonym = group_table.BROKER_SYNONYMS.get(name)
        value = self._broker.value(synonym) if synonym else GROUP[name].default_value()
        assert value is not None
        return value

    def _check_bound(self, name: str, value: Value, bound_name: str, *, at_least: bool) -> None:
        if bound_name not in BROKER:
            return
        bound = self._broker.value(bound_name)
        if at_least and _number(value) < _number(bound):
            raise ConfigError(f"{name} must be greater than or equal to {bound_name}")
        if not at_least and _number(value) > _number(bound):
            raise ConfigError(f"{name} must be less than or equal to {bound_name}")


def check_static(name: str, value: str) -> None:
    """Raise ConfigError if the broker cannot be started with this config."""
    definition = definition_of(name)
    if definition is not None:
        definition.parse(value)
    elif name.startswith(OWN_PREFIX):
        own = ", ".join(each for each in BROKER if each.startswith(OWN_PREFIX))
        raise ConfigError(f"Penstock has no config {name}; its own are {own}")


_BY_LISTENER_ONLY = frozenset(
    {"ssl.key.password", "ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key"}
    | {f"ssl.{store}.{part}" for store in ("keystore", "truststore") for part in ("type", "location", "password")}
)


def check_dynamic(changes: Mapping[str, str], *, for_all_brokers: bool) -> None:
    """Raise ConfigError, in Kafka's words, unless these may be set at run time. A name that is unknown may."""
    known = {name: definition for name in changes if (definition := definition_of(name)) is not None}
    fixed = [name for name, definition in known.items() if definition.scope is Scope.READ_ONLY]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    bare = [name for name in changes if name in _BY_LISTENER_ONLY]
    if bare:
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(bare)}]"
        )
    single = [name for name, definition in known.items() if definition.scope is Scope.PER_BROKER]
    if for_all_brokers and single:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    for name, definition in known.items():
        definition.parse(changes[name])
    check_promises_at_run_time(changes)


def _is_unused(name: str) -> bool:
    """Whether Kafka has this config and Penstock has no use for it."""
    definition = definition_of(name)
    if definition is None:
        return False
    return not definition.is_used or (name != definition.name and not holds_for_listeners(definition.name))


def _number_the_node(static: dict[str, str]) -> None:
    """`broker.id` is the older name of `node.id`: each stands for the other. A single broker need not be numbered."""
    static["node.id"] = static["broker.id"] = static.get("node.id", static.get("broker.id", _FIRST_NODE))


def _entry(
    definition: Definition, value: Value | None, is_own: bool, own_source: Source, inherited: list[Synonym]
) -> Entry:
    text = None if definition.is_sensitive else format_value(value)
    synonyms = [Synonym(definition.name, text, own_source), *inherited] if is_own else inherited
    return Entry(
        definition.name,
        text,
        synonyms[0].source if synonyms else Source.DEFAULT,
        False,
        definition.is_sensitive,
        definition.type,
        definition.documentation or _NOT_USED,
        synonyms,
    )


def _chosen(available: Iterable[str], names: Collection[str] | None) -> list[str]:
    """All of them when nobody asked for certain ones."""
    return [name for name in available if not names or name in names]


def _number(value: Value | None) -> int:
    assert isinstance(value, int)
    return value
