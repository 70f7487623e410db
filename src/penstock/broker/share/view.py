"""The windows of a group for people who look: what `penstock share inspect` and the console draw.

Every window is shown with its counts and what its members do. Its records, of which there may be thousands, are shown
in runs that are alike, and only of windows that the query names (`records=TOPIC:0,1;OTHER:3`; all if it names none), up
to a bound for one answer: whoever wants more asks for those that were left out. The answer is made in slices and
shared (`broker.slices`), for consoles read it several times a second.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.share.live import steady_ms
from penstock.broker.slices import Shared

if TYPE_CHECKING:
    from penstock.broker.share.configs import ShareConfigs
    from penstock.broker.share.live import LiveSharePartition
    from penstock.broker.share.windows import ShareWindows
    from penstock.broker.world import World

_RUNS_MAX = 50_000
_NONE = "none"

Wanted = Callable[[str, int], bool]


class ShareView:
    def __init__(self, windows: ShareWindows, configs: ShareConfigs, world: World) -> None:
        self._windows = windows
        self._configs = configs
        self._world = world
        self._shared = Shared(world)

    def show(self, query: Mapping[str, str]) -> object | Awaitable[list[bytes]]:
        """The names of the groups, or the windows of the one that the query names."""
        group_id, records = query.get("group"), query.get("records", "")
        if group_id is None:
            return self._windows.groups()
        wanted = parse_wanted(records)
        return self._shared.get(json.dumps([group_id, records]), lambda: self._pieces(group_id, wanted))

    def _pieces(self, group_id: str, wanted: Wanted) -> Iterator[bytes]:
        lives = sorted(self._windows.of_group(group_id), key=lambda live: (live.partition.topic.name, live.key[2]))
        runs = 0
        before = b"["
        for live in lives:
            window = self._window(live)
            if runs < _RUNS_MAX and wanted(live.partition.topic.name, live.key[2]):
                yield b""  # the rest of this window is a slice of its own
                rows = list(self._rows(live))
                runs += len(rows)
                text = f'{json.dumps(window)[:-1]}, "records": [{", ".join(rows)}]}}'
            else:
                text = json.dumps(window)
            yield before + text.encode()
            before = b","
        yield b"]" if lives else b"[]"

    def _window(self, live: LiveSharePartition) -> dict[str, object]:
        settings, now_ms = self._configs.settings(live.group_id), steady_ms(self._world)
        return {
            "topic": live.partition.topic.name,
            "partition": live.key[2],
            "startOffset": live.core.start_offset,
            "endOffset": live.core.acquired_end_offset,
            "logEndOffset": live.partition.log.log_end_offset,
            "waitingFetches": len(live.waiting),
            "maxRecordLocks": settings.max_record_locks,
            "deliveryCountLimit": settings.delivery_count_limit,
            "counts": [
                {
                    "state": state,
                    "deliveryCount": deliveries,
                    "count": number,
                    "nextMs": None if ready_ms is None else max(0, ready_ms - now_ms),
                }
                for state, deliveries, number, ready_ms in live.core.counts()
            ],
            "oldest": next(map(json.loads, self._rows(live)), None),
            "members": self._members(live),
        }

    def _rows(self, live: LiveSharePartition) -> Iterator[str]:
        """The records as JSON. There may be as many runs as records, and objects for each would occupy the collector
        of garbage, so the text is put together here; only names of members need quoting."""
        quoted: dict[str, str] = {}
        for offset, number, state, deliveries, holder, remaining_ms in live.core.view(steady_ms(self._world)):
            yield (
                f'{{"offset": {offset}, "count": {number}, "state": "{state}", "deliveryCount": {deliveries}, '
                f'"memberId": {quoted.get(holder) or quoted.setdefault(holder, json.dumps(holder))}, '
                f'"remainingMs": {remaining_ms}}}'
            )

    def _members(self, live: LiveSharePartition) -> list[dict[str, object]]:
        """What each member does with this partition; rates are those of the last minute."""
        now, now_ms = self._world.monotonic(), steady_ms(self._world)
        held, oldest_ms, ends_ms = live.core.held_by_member(), live.core.oldest_held_ms(), live.core.next_lock_end_ms()
        return [
            {
                "memberId": member_id,
                "heldRecords": held.get(member_id, 0),
                "oldestHeldMs": now_ms - oldest_ms[member_id] if member_id in oldest_ms else None,
                "nextLockEndMs": max(0, ends_ms[member_id] - now_ms) if member_id in ends_ms else None,
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


def parse_wanted(text: str) -> Wanted:
    """Which windows are to be shown with their records. Raises LookupError for what names none."""
    if not text:
        return lambda topic, index: True
    named: set[tuple[str, int]] = set()
    for each in () if text == _NONE else text.split(";"):
        topic, _, numbers = each.rpartition(":")
        try:
            named.update((topic, int(number)) for number in numbers.split(","))
        except ValueError:
            raise LookupError(f"records={text[:100]} does not name windows; use TOPIC:0,1;OTHER:3, or none") from None
    return lambda topic, index: (topic, index) in named
