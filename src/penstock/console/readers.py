"""Who reads a topic: consumer groups and queues with their lag, by topic.

From the metrics of brokers where there are any, else from committed offsets; kept for a few seconds, as every page of a
topic shows it and it is dear to gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from penstock.client.admin import Admin
from penstock.console.pages.groups import commits_of, ends_of
from penstock.console.problems import values_of
from penstock.console.readings import Cached
from penstock.console.session import Session
from penstock.wire.errors import KafkaError

_FRESH_SECONDS = 5.0
_MOST_GROUPS = 100
_LAGS = {"penstock_group_lag_records_sum": False, "penstock_share_group_lag_records_sum": True}


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads a topic."""

    group: str
    is_queue: bool
    lag: int


Lags = dict[str, list[Reader]]
_cached: WeakKeyDictionary[Session, Cached[Lags]] = WeakKeyDictionary()


async def lags_of(session: Session) -> Lags:
    """Readers by topic, those furthest behind first."""
    if session not in _cached:
        _cached[session] = Cached(lambda: _read(session), _FRESH_SECONDS)
    return await _cached[session].get()


async def _read(session: Session) -> Lags:
    metrics = await session.monitoring.metrics()
    found: dict[tuple[str, str, bool], int] = {}
    if metrics:
        for samples in metrics.values():
            for name, is_queue in _LAGS.items():
                for labels, value in values_of(samples, name):
                    key = labels["topic"], labels["group"], is_queue
                    found[key] = found.get(key, 0) + int(value)
    else:
        found = await _from_offsets(await session.admin())
    lags: Lags = {}
    for (topic, group, is_queue), lag in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        lags.setdefault(topic, []).append(Reader(group, is_queue, lag))
    return lags


async def _from_offsets(admin: Admin) -> dict[tuple[str, str, bool], int]:
    try:
        listed = (await admin.list_groups())[:_MOST_GROUPS]
    except KafkaError:
        return {}  # this user may not see them
    found: dict[tuple[str, str, bool], int] = {}
    committed = await commits_of(admin, [group for group in listed if group.type.lower() != "share"])
    ends = await ends_of(admin, {tp for offsets in committed.values() for tp in offsets})
    for group, offsets in committed.items():
        for tp, offset in offsets.items():
            lag = max(0, ends[tp] - offset) if tp in ends else 0
            found[tp.topic, group, False] = found.get((tp.topic, group, False), 0) + lag
    for share in (group.group_id for group in listed if group.type.lower() == "share"):
        try:
            for tp, at in (await admin.list_share_group_offsets(share)).items():
                found[tp.topic, share, True] = found.get((tp.topic, share, True), 0) + max(0, at.lag)
        except KafkaError:
            continue
    return found
