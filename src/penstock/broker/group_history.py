"""What happened to groups: their lag over the last hour, one point a minute, and why they rebalanced.

It is for the console, and for whoever has no Prometheus. The points of a group are in a ring of fixed size, and there
are rings for a bounded number of groups: those that were there first. A round adds up what the lag metrics say, a
little at a time, so that clients are served meanwhile.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

from penstock import guard

if TYPE_CHECKING:
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.metrics import Metric
    from penstock.broker.world import Timer, World
    from penstock.groups.timeline import Event

POINTS_MAX = 60
GROUPS_MAX = 2_000
_FIRST_SECONDS = 5.0
_INTERVAL_SECONDS = 60.0
_SLICE_SECONDS = 0.001
_SUMS = ("penstock_group_lag_records_sum", "penstock_share_group_lag_records_sum")
_AGES = ("penstock_group_lag_age_seconds", "penstock_share_group_lag_age_seconds")


class _Ring:
    """Time, lag and age of the last points, three numbers each; the oldest are overwritten."""

    __slots__ = ("_next", "_numbers", "last_ms")

    def __init__(self) -> None:
        self._numbers = array("d")
        self._next = 0
        self.last_ms = 0

    def add(self, at_ms: int, lag: float, age_seconds: float) -> None:
        self._numbers[self._next : self._next + 3] = array("d", (at_ms, lag, age_seconds))
        self._next = (self._next + 3) % (3 * POINTS_MAX)
        self.last_ms = at_ms

    def points(self) -> list[dict[str, float]]:
        numbers = self._numbers[self._next :] + self._numbers[: self._next]
        return [
            {"at": int(at_ms), "lag": int(lag), "ageSeconds": age_seconds}
            for at_ms, lag, age_seconds in zip_longest(*[iter(numbers)] * 3)
        ]


class GroupHistory:
    def __init__(
        self, lag: Callable[[], Iterator[Metric | None]], groups: Callable[[], GroupCoordinator | None], world: World
    ) -> None:
        """`lag` collects the lag metrics of all groups; see `broker.metrics` for what it yields."""
        self._lag = lag
        self._groups = groups
        self._world = world
        self._rings: dict[str, _Ring] = {}
        self._timer: Timer | None = None
        self._slice: Timer | None = None

    def start(self) -> None:
        self._timer = self._world.call_later(_FIRST_SECONDS, self._begin)

    def stop(self) -> None:
        for timer in (self._timer, self._slice):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice = None

    def view(self, query: Mapping[str, str]) -> object:
        """The groups of which something is known, or what is known of one, the latest last."""
        groups, group_id = self._groups(), query.get("group")
        if group_id is None:
            return sorted({*self._rings, *(() if groups is None else groups.timeline.group_ids())})
        ring, events = self._rings.get(group_id), [] if groups is None else groups.timeline.of(group_id)
        if ring is None and not events:
            raise LookupError(f"nothing is known of a group {group_id!r}")
        ahead_ms = 0 if groups is None else self._world.now_ms() - groups.time.now_ms()
        return {
            "group": group_id,
            "lag": [] if ring is None else ring.points(),
            "events": [_shown(event, ahead_ms) for event in events],
        }

    def _begin(self) -> None:
        self._timer = self._world.call_later(_INTERVAL_SECONDS, self._begin)
        self._go_on(self._lag(), {}, {})

    def _go_on(self, metrics: Iterator[Metric | None], lags: dict[str, float], ages: dict[str, float]) -> None:
        guard.attempt("noting the lag of groups", self._collect, metrics, lags, ages)

    def _collect(self, metrics: Iterator[Metric | None], lags: dict[str, float], ages: dict[str, float]) -> None:
        until = self._world.precise() + _SLICE_SECONDS
        for metric in metrics:
            if metric is not None and metric.name in _SUMS:
                for labels, lag in metric.samples:
                    lags[labels[0]] = lags.get(labels[0], 0) + lag
            elif metric is not None and metric.name in _AGES:
                for labels, age in metric.samples:
                    ages[labels[0]] = max(ages.get(labels[0], 0), age)
            if self._world.precise() >= until:
                self._slice = self._world.call_soon(self._go_on, metrics, lags, ages)
                return
        self._add(lags, ages)

    def _add(self, lags: dict[str, float], ages: dict[str, float]) -> None:
        now_ms = self._world.now_ms()
        over_ms = POINTS_MAX * _INTERVAL_SECONDS * 1000
        self._rings = {
            group_id: ring
            for group_id, ring in self._rings.items()
            if group_id in lags or now_ms - ring.last_ms < over_ms
        }
        for group_id, lag in lags.items():
            ring = self._rings.get(group_id)
            if ring is None and len(self._rings) < GROUPS_MAX:
                ring = self._rings[group_id] = _Ring()
            if ring is not None:
                ring.add(now_ms, lag, ages.get(group_id, 0.0))


def _shown(event: Event, ahead_ms: int) -> dict[str, object]:
    """`ahead_ms` is what the wall clock was moved by since the coordinator's own clock was set."""
    return {
        "at": event.at_ms + ahead_ms,
        "event": event.happened,
        "epoch": event.epoch,
        "memberId": event.member_id,
        "instanceId": event.instance_id,
        "clientId": event.client_id,
        "host": event.client_host,
        "detail": event.detail,
    }
