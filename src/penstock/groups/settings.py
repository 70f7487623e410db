"""The coordinator's configuration and its window on the outside world.

`GroupSettings` holds the broker-wide values under Kafka's names (dots as underscores) with Kafka's defaults; a group
may override some of them with GROUP configs, which are looked up at the moment of use. `TopicsView` is all that group
coordination needs to know of topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

MAX_INT = 2**31 - 1


class TopicsView(Protocol):
    """The topics that exist now."""

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, deleted or grows."""
        ...

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int: ...

    def topic_names(self) -> Iterable[str]: ...


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: whether a live group may change between the classic and consumer protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def _no_overrides(group_id: str) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class GroupSettings:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = MAX_INT
    group_new_member_join_timeout_ms: int = 300_000

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = MAX_INT
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignment_interval_ms: int = 1_000

    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000

    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    # GROUP configs (resource type 32) of one group: {"consumer.session.timeout.ms": "45000", …}
    overrides: Callable[[str], Mapping[str, str]] = field(default=_no_overrides)

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        return self._override(group_id, "consumer.session.timeout.ms", self.group_consumer_session_timeout_ms)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        return self._override(group_id, "consumer.heartbeat.interval.ms", self.group_consumer_heartbeat_interval_ms)

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        return self._override(group_id, "consumer.assignment.interval.ms", self.group_consumer_assignment_interval_ms)

    def share_session_timeout_ms(self, group_id: str) -> int:
        return self._override(group_id, "share.session.timeout.ms", self.group_share_session_timeout_ms)

    def share_heartbeat_interval_ms(self, group_id: str) -> int:
        return self._override(group_id, "share.heartbeat.interval.ms", self.group_share_heartbeat_interval_ms)

    def _override(self, group_id: str, name: str, default: int) -> int:
        value = self.overrides(group_id).get(name)
        return default if value is None else int(value)
