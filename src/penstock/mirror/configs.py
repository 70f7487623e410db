"""The configs of a mirrored topic.

A topic gets the configs that are set on it at the source, and those of `KEPT` that differ because the brokers'
defaults do. While it is mirrored some are held at other values, so that every record is taken as it is; the cut-over
gives them the source's. A config that the target refuses is reported, and left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.client.admin.configs import ConfigSource
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.admin.configs import ConfigEntry

KEPT = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
)
_LARGEST_BATCH = 64 << 20
_FOREVER_MS = str(2**63 - 1)
HELD = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _FOREVER_MS,
    "message.timestamp.after.max.ms": _FOREVER_MS,
    "max.message.bytes": str(_LARGEST_BATCH),
}
_OF_THE_CLUSTER = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")


def wanted(source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """What is to be set on the topic at the target, as it is at the source."""
    found: dict[str, str] = {}
    for name, entry in source.items():
        if entry.value is None or entry.sensitive or name in _OF_THE_CLUSTER:
            continue
        there = target.get(name)
        differs = name in KEPT and there is not None and _without_hold(there) != entry.value
        if entry.source == ConfigSource.TOPIC or differs:
            found[name] = entry.value
    return found


def _without_hold(entry: ConfigEntry) -> str | None:
    """The value that a config of the target has when the mirror does not hold it at another one."""
    if entry.name not in HELD or entry.value != HELD[entry.name]:
        return entry.value
    return next((each.value for each in entry.synonyms if each.source != ConfigSource.TOPIC), entry.value)


class TopicConfigs:
    """Keeps the configs of one topic equal."""

    def __init__(self, source: Admin, target: Admin, topic: str) -> None:
        self.refused: dict[str, str] = {}
        """Configs that the target does not take, each with its reason."""
        self.is_compacted = False
        """Whether the source's topic, or the target's, may lose records to compaction."""
        self._copied: set[str] = set()
        self._source = source
        self._target = target
        self._topic = topic

    async def copy(self, *, is_held: bool) -> None:
        """Set what differs at the target, and take away what the source no longer sets. What was set at the target
        by somebody else stays.
        """
        source = await self._source.describe_configs(ResourceType.TOPIC, self._topic)
        target = await self._target.describe_configs(ResourceType.TOPIC, self._topic)
        self.is_compacted = any("compact" in (side["cleanup.policy"].value or "") for side in (source, target))
        chosen = wanted(source, target) | (HELD if is_held else {})
        changes: dict[str, str | None] = {
            name: value
            for name, value in chosen.items()
            if name not in self.refused
            and not ((there := target.get(name)) and there.source == ConfigSource.TOPIC and there.value == value)
        }
        for name, entry in target.items():
            if entry.source == ConfigSource.TOPIC and name not in chosen and (name in HELD or name in self._copied):
                changes[name] = None
        self._copied.update(chosen)
        await self._apply(changes)

    async def differences(self) -> list[str]:
        """Configs that the target was to take and that have another value there."""
        source = await self._source.describe_configs(ResourceType.TOPIC, self._topic)
        target = await self._target.describe_configs(ResourceType.TOPIC, self._topic)
        return [
            f"{self._topic}: {name} is {value} at the source, and {target[name].value} at the target"
            for name, value in wanted(source, target).items()
            if name not in self.refused and name in target and target[name].value != value
        ]

    async def _apply(self, changes: Mapping[str, str | None]) -> None:
        if not changes:
            return
        try:
            await self._target.alter_configs(ResourceType.TOPIC, self._topic, changes)
            return
        except KafkaError as error:
            if error.retriable:
                raise
            if len(changes) == 1:
                self.refused[next(iter(changes))] = str(error)
                return
        for name, value in changes.items():  # find out which
            await self._apply({name: value})
