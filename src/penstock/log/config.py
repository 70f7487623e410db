"""The configs that a partition log obeys: Kafka's topic configs, typed, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

_FOREVER = 2**63 - 1


@dataclass(slots=True, frozen=True, kw_only=True)
class LogConfig:
    """Field names are Kafka's config names with underscores; a topic's config map becomes one with `from_configs`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    flush_messages: int = _FOREVER
    flush_ms: int = _FOREVER
    producer_id_expiration_ms: int = 86_400_000
    """A broker config in Kafka (`producer.id.expiration.ms`); it stands here because the log applies it."""

    @property
    def deletes(self) -> bool:
        return "delete" in self._policies()

    @property
    def compacts(self) -> bool:
        return "compact" in self._policies()

    @property
    def roll_ms(self) -> int:
        """Age at which a segment rolls: a compacted log must roll in time for its maximum compaction lag."""
        age_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        return age_ms - min(self.segment_jitter_ms, age_ms)

    def _policies(self) -> list[str]:
        return [policy.strip() for policy in self.cleanup_policy.split(",")]

    @classmethod
    def from_configs(cls, configs: Mapping[str, str | int | float], base: LogConfig | None = None) -> LogConfig:
        """Take the configs that concern the log out of a topic's config map; the others are left alone.

        `internal.segment.bytes` overrides `segment.bytes`, as in Kafka, so that tests can use tiny segments.
        """
        start = base if base is not None else cls()
        changes: dict[str, int | float | str] = {}
        for field in fields(cls):
            value = configs.get(field.name.replace("_", "."))
            if value is not None:
                changes[field.name] = _KINDS[field.name](value)
        internal = configs.get("internal.segment.bytes")
        if internal is not None:
            changes["segment_bytes"] = int(internal)
        return replace(start, **changes)  # type: ignore[arg-type]


_KINDS = {field.name: {"int": int, "float": float, "str": str}[str(field.type)] for field in fields(LogConfig)}
