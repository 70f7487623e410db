"""The configs of client metrics subscriptions (KIP-714). They are kept and described; no client pushes metrics yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.broker.config.definitions import ConfigError, format_value, read_table
from penstock.broker.config.resolver import Entry, Source, Synonym

_TABLE = read_table("""
interval.ms int =300000 100..3600000
    How often clients push their metrics.
match list =
    Which clients the subscription is for: name=regular expression, separated by commas.
metrics list =
    Prefixes of the names of the metrics that clients push; * takes all.
""")

CLIENT_METRICS = {definition.name: definition for definition in _TABLE}


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raise ConfigError unless a subscription may have these configs."""
    for name, value in overrides.items():
        if name not in CLIENT_METRICS:
            raise ConfigError(f"Unknown client metrics configuration: {name}")
        CLIENT_METRICS[name].parse(value)


def client_metrics_entries(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Entry]:
    """A subscription's configs as DescribeConfigs answers them."""
    entries = []
    for name, definition in CLIENT_METRICS.items():
        if names and name not in names:
            continue
        source = Source.CLIENT_METRICS if name in overrides else Source.DEFAULT
        value = format_value(definition.parse(overrides.get(name, definition.default or "")))
        synonyms = [Synonym(name, definition.default, Source.DEFAULT)]
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, source))
        entries.append(Entry(name, value, source, False, False, definition.type, definition.documentation, synonyms))
    return entries
