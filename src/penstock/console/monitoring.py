"""What Penstock brokers show beside Kafka's protocol (`client.monitoring`), as far as the session's user may see it.

Beyond this machine a broker decides what the user may see. On this machine it asks nobody for a user, so what is not
about one group is read only for users to whom the broker grants DESCRIBE on the cluster, as it would itself require;
what is about one group is for pages that have described that group as the user. Brokers that show nothing, Apache Kafka
among them, leave the pages with what the protocol tells.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from penstock.client import monitoring
from penstock.client.admin import Admin
from penstock.client.monitoring import NotShown
from penstock.client.scrapes import ByBroker, Samples, parse
from penstock.console.readings import Cached
from penstock.wire.acls import AclOperation

T = TypeVar("T")
PREFIXES = (
    "kafka_server_brokertopicmetrics_",
    "penstock_coordinator_writes_failing_seconds",
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "penstock_group_commit_age_seconds",
    "penstock_group_lag_",
    "penstock_group_stalled_seconds",
    "penstock_lease_seconds",
    "penstock_share_deliveries_total",
    "penstock_share_group_acknowledgement_age_seconds",
    "penstock_share_group_held_records",
    "penstock_share_group_lag_",
    "penstock_share_group_stalled_seconds",
    "penstock_store_",
    "penstock_success_age_seconds",
)
"""The metrics that any page wants: a scrape is shared by all of a session's pages."""
_PATIENCE_SECONDS = 5.0
_FRESH_SECONDS = 30.0
_SCRAPE_SECONDS = 2.0
_WATCHED_SECONDS = 30.0


class Monitoring:
    def __init__(self, admin: Callable[[], Awaitable[Admin]], settings: Mapping[str, object]) -> None:
        self._admin = admin
        self._settings = settings
        self._addresses = Cached(self._find, _FRESH_SECONDS)
        self._permission = Cached(self._may_look, _FRESH_SECONDS)
        self._scrape = Cached(self._scrape_all, _SCRAPE_SECONDS)
        self._scrapes: deque[tuple[float, ByBroker]] = deque()

    async def is_there(self) -> bool:
        return bool(await self._addresses.get())

    async def addresses(self) -> dict[int, str]:
        """Where each broker shows its views."""
        return await self._addresses.get()

    async def may_look(self) -> bool:
        """Whether the user may see what is about more than one group."""
        return await self._permission.get()

    async def read(self, path: str, **query: str) -> list[object]:
        """What each broker that can be reached shows under a path; a broker that fails, or refuses, is left out."""
        return list((await self.by_broker(path, **query)).values())

    async def by_broker(self, path: str, **query: str) -> dict[int, object]:
        """The same by the id of the broker."""
        return await self._read(path, query, json.loads)

    async def metrics(self) -> dict[int, Samples]:
        """The metrics named by PREFIXES, by broker, at most two seconds old."""
        return await self._scrape.get()

    async def recent(self) -> Sequence[tuple[float, ByBroker]]:
        """The metrics by broker, over the last half minute that somebody looked, each reading with its time."""
        await self._scrape.get()
        return list(self._scrapes)

    async def _scrape_all(self) -> dict[int, Samples]:
        found = await self._read("/metrics", {}, lambda text: parse(text, PREFIXES))
        if found:
            now = time.monotonic()
            self._scrapes.append((now, {str(node): samples for node, samples in found.items()}))
            while now - self._scrapes[0][0] > _WATCHED_SECONDS:
                self._scrapes.popleft()
        return found

    async def _read(self, path: str, query: Mapping[str, str], understand: Callable[[str], T]) -> dict[int, T]:
        if "group" not in query and not await self.may_look():
            return {}
        addresses = await self._addresses.get()
        found = await asyncio.gather(
            *(asyncio.to_thread(self._get, url, path, query, understand) for url in addresses.values())
        )
        return {node: shown for node, shown in zip(addresses, found, strict=True) if shown is not None}

    def _get(self, url: str, path: str, query: Mapping[str, str], understand: Callable[[str], T]) -> T | None:
        try:
            return understand(monitoring.read(url, path, query, self._settings, _PATIENCE_SECONDS))
        except (NotShown, ValueError):
            return None

    async def _may_look(self) -> bool:
        cluster = await (await self._admin()).describe_cluster(include_operations=True)
        return cluster.operations is not None and AclOperation.DESCRIBE in cluster.operations

    async def _find(self) -> dict[int, str]:
        return await monitoring.find_addresses(await self._admin())
