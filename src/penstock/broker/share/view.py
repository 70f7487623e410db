"""The windows of a group for people who look: what `penstock share inspect` draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.broker.share.live import steady_ms

if TYPE_CHECKING:
    from penstock.broker.share.configs import ShareConfigs
    from penstock.broker.share.live import LiveSharePartition
    from penstock.broker.share.windows import ShareWindows
    from penstock.broker.world import World


class ShareView:
    def __init__(self, windows: ShareWindows, configs: ShareConfigs, world: World) -> None:
        self._windows = windows
        self._configs = configs
        self._world = world

    def show(self, query: Mapping[str, str]) -> object:
        """The names of the groups, or the windows of the one that the query names, row by row."""
        group_id = query.get("group")
        if group_id is None:
            return self._windows.groups()
        lives = sorted(self._windows.of_group(group_id), key=lambda live: (live.partition.topic.name, live.key[2]))
        return [self._window(live) for live in lives]

    def _window(self, live: LiveSharePartition) -> dict[str, object]:
        settings = self._configs.settings(live.group_id)
        return {
            "topic": live.partition.topic.name,
            "partition": live.key[2],
            "startOffset": live.core.start_offset,
            "endOffset": live.core.acquired_end_offset,
            "logEndOffset": live.partition.log.log_end_offset,
            "waitingFetches": len(live.waiting),
            "maxRecordLocks": settings.max_record_locks,
            "deliveryCountLimit": settings.delivery_count_limit,
            "members": self._members(live),
            "records": [
                {
                    "offset": row.offset,
                    "state": row.state,
                    "deliveryCount": row.delivery_count,
                    "memberId": row.member_id,
                    "remainingMs": row.remaining_ms,
                }
                for row in live.core.view(steady_ms(self._world))
            ],
        }

    def _members(self, live: LiveSharePartition) -> list[dict[str, object]]:
        """What each member does with this partition; rates are those of the last minute."""
        now = self._world.monotonic()
        held, oldest_ms = live.core.held_by_member(), live.core.oldest_held_ms()
        return [
            {
                "memberId": member_id,
                "heldRecords": held.get(member_id, 0),
                "oldestHeldMs": steady_ms(self._world) - oldest_ms[member_id] if member_id in oldest_ms else None,
                "deliveries": worker.delivered,
                "deliveriesPerSecond": worker.delivering.rate(now),
                "acknowledgements": worker.acknowledged,
                "acknowledgementsPerSecond": worker.acknowledging.rate(now),
                "lastAcknowledgementMs": None
                if worker.acknowledged_at is None
                else int((now - worker.acknowledged_at) * 1000),
            }
            for member_id, worker in sorted(live.workers.known(held, now).items())
        ]
