"""From configs to `ShareSettings`: worked out once for all groups that have the same, and again when one changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.broker.config import Value
from penstock.queues.settings import RetryBackoff, ShareSettings

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig, Configs

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?")


class ShareConfigs:
    def __init__(self, configs: Configs, config: BrokerConfig) -> None:
        self._configs = configs
        self._config = config
        self._known: dict[tuple[tuple[str, str], ...], ShareSettings] = {}
        """By what the group's own configs are: groups come and go, and most have none."""

    def start(self) -> None:
        self._configs.listeners.append(self._known.clear)

    def settings(self, group_id: str) -> ShareSettings:
        overrides = self._configs.group_overrides(group_id)
        key = tuple(sorted(overrides.items())) if overrides else ()
        settings = self._known.get(key)
        if settings is None:
            settings = self._known[key] = settings_from(self._configs.resolve_group(group_id))
        return settings

    @property
    def dead_letter_prefix(self) -> str:
        return self._config.errors_deadletterqueue_topic_name_prefix

    @property
    def dead_letter_auto_create(self) -> bool:
        return self._config.errors_deadletterqueue_auto_create_topics_enable


def settings_from(values: Mapping[str, Value]) -> ShareSettings:
    backoff_ms = int(values["penstock.share.retry.backoff.ms"])
    return ShareSettings(
        record_lock_duration_ms=int(values["share.record.lock.duration.ms"]),
        delivery_count_limit=int(values["share.delivery.count.limit"]),
        max_record_locks=int(values["share.partition.max.record.locks"]),
        renew_acknowledge_enabled=bool(values["share.renew.acknowledge.enable"]),
        read_committed=values["share.isolation.level"] == "read_committed",
        auto_offset_reset=str(values["share.auto.offset.reset"]),
        retry_backoff=RetryBackoff(
            backoff_ms,
            float(values["penstock.share.retry.backoff.multiplier"]),
            int(values["penstock.share.retry.backoff.max.ms"]),
        )
        if backoff_ms > 0
        else None,
        delivery_time_header=str(values["penstock.share.delivery.time.header"]),
        dead_letter_topic=str(values["errors.deadletterqueue.topic.name"]),
        dead_letter_authority=str(values["penstock.share.deadletterqueue.authority"]),
        dead_letter_copies_record=bool(values["errors.deadletterqueue.copy.record.enable"]),
    )


def duration_ms(text: str) -> int:
    """An ISO 8601 duration as Java's Duration parses it; configs are checked when they are set."""
    match = _DURATION.fullmatch(text.strip().upper())
    if match is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction_ms = int((match.group(5) or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms
