"""The configs of client metrics subscriptions (KIP-714), and which clients a subscription is for.

Clients push nothing without a subscription. So a broker whose metrics somebody can look at has a default one, which can
be changed and removed like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.broker.config.definitions import format_value, read_table
from penstock.broker.config.resolver import Entry, Source, Synonym
from penstock.wire.errors import InvalidConfig, InvalidRequest

_SHORTEST_MS = 100
_LONGEST_MS = 3_600_000
_MATCHED = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

_TABLE = read_table("""
interval.ms int =300000
    How often clients push their metrics.
match list =
    The clients that the subscription applies to: name=regular expression, separated by commas.
metrics list =
    Prefixes of the names of the metrics that clients push; * for all.
""")

DEFAULT_SUBSCRIPTION = "penstock-default"
DEFAULT_SUBSCRIPTION_CONFIGS = {
    "interval.ms": "60000",
    "metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.,org.apache.kafka.share.",
}
REMOVED = {"penstock.removed": "true"}
"""What the catalog keeps of the default subscription after somebody removed it."""

CLIENT_METRICS = {definition.name: definition for definition in _TABLE}


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raise unless a subscription may have these configs. Kafka answers its faults with different error codes."""
    for name, value in overrides.items():
        if name not in CLIENT_METRICS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        CLIENT_METRICS[name].parse(value)
    if "interval.ms" in overrides:
        interval_ms = CLIENT_METRICS["interval.ms"].parse(overrides["interval.ms"])
        assert isinstance(interval_ms, int)
        if not _SHORTEST_MS <= interval_ms <= _LONGEST_MS:
            raise InvalidRequest(
                f"Invalid value {interval_ms} for interval.ms, interval must be between {_SHORTEST_MS} and "
                f"{_LONGEST_MS} (1 hour)"
            )
    for pattern in filter(None, overrides.get("match", "").split(",")):
        if not _is_pattern(pattern):
            raise InvalidConfig(f"Illegal client matching pattern: {pattern.strip()}")


def _is_pattern(text: str) -> bool:
    name, _, expression = text.partition("=")
    if name.strip() not in _MATCHED or not expression or "=" in expression:
        return False
    try:
        re.compile(expression.strip())
    except re.error:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def is_for(self, client: Mapping[str, str]) -> bool:
        """Whether a client with these attributes (`client_id`, ...) matches every pattern."""
        return all(pattern.fullmatch(client.get(name, "")) for name, pattern in self.patterns)


def subscription(overrides: Mapping[str, str]) -> Subscription:
    """What configs that were checked stand for."""
    interval_ms = CLIENT_METRICS["interval.ms"].parse(
        overrides.get("interval.ms", CLIENT_METRICS["interval.ms"].default or "")
    )
    assert isinstance(interval_ms, int)
    pairs = [text.partition("=") for text in overrides.get("match", "").split(",") if text]
    return Subscription(
        tuple(filter(None, (name.strip() for name in overrides.get("metrics", "").split(",")))),
        interval_ms,
        tuple((name.strip(), re.compile(expression.strip())) for name, _, expression in pairs),
    )


def client_metrics_entries(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Entry]:
    """A subscription's configs as DescribeConfigs answers them."""
    entries = []
    for name, definition in CLIENT_METRICS.items():
        if names and name not in names:
            continue
        source = Source.CLIENT_METRICS if name in overrides else Source.DEFAULT
        value = format_value(definition.parse(overrides.get(name, definition.default or "")))
        # Unlike elsewhere in Kafka, the default is no synonym.
        synonyms = [Synonym(name, value, source)] if name in overrides else []
        entries.append(Entry(name, value, source, False, False, definition.type, definition.documentation, synonyms))
    return entries
