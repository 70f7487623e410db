"""A catalog that several brokers share, read ahead by a thread.

`PrefetchedCatalog` belongs to the event loop, which makes changes with it. What others have changed is read by a
`Prefetching` catalog, in the thread that holds the lease and over its connection; the loop then applies what was read
without waiting for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.catalog.contract import CredentialRow, TopicRow
from penstock.catalog.leases import Prefetched
from penstock.catalog.postgres_shared import SharedPostgresCatalog
from penstock.catalog.read_ahead import read_ahead
from penstock.catalog.shared import BrokerRow, Changes, Kind, PartitionRow
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.config_resources import ResourceType

T = TypeVar("T")


class Prefetching(SharedPostgresCatalog):
    """See `leases.MemberReader`."""

    def prefetch(self, version: int, local_changes: int, also: frozenset[Kind] = frozenset()) -> Prefetched | None:
        return read_ahead(self, version, local_changes, also)


class PrefetchedCatalog(SharedPostgresCatalog):
    """See `leases.MemberCatalog`."""

    local_changes = 0
    _held: Prefetched | None = None

    @contextmanager
    def holding(self, prefetched: Prefetched) -> Iterator[None]:
        self._held = prefetched
        try:
            yield
        finally:
            self._held = None

    def _find(self, call: tuple[object, ...], read: Callable[[], T]) -> T:
        if self._held is not None and call in self._held.rows:
            found: Any = self._held.rows[call]
            return found  # type: ignore[no-any-return]
        return read()

    def changes_since(self, version: int) -> Changes:
        if self._held is not None:
            return Changes(self._held.version, self._held.kinds)
        return super().changes_since(version)

    def brokers(self) -> list[BrokerRow]:
        return self._find(("brokers",), super().brokers)

    def topics(self) -> list[TopicRow]:
        return self._find(("topics",), super().topics)

    def partitions(self) -> list[PartitionRow]:
        return self._find(("partitions",), super().partitions)

    def features(self) -> dict[str, int]:
        return self._find(("features",), super().features)

    def features_epoch(self) -> int:
        return self._find(("features_epoch",), super().features_epoch)

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        return self._find(
            ("config_resources", resource_type), lambda: super(PrefetchedCatalog, self).config_resources(resource_type)
        )

    def acls(self) -> list[AclBinding]:
        return self._find(("acls",), super().acls)

    def credentials(self) -> list[CredentialRow]:
        return self._find(("credentials",), super().credentials)

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return self._find(("quotas",), super().quotas)

    def _attempt(
        self, change: str, apply: Callable[[Any], None], result: Callable[[Any], T], kinds: Collection[Kind]
    ) -> T:
        # Before and after: what a thread reads meanwhile may or may not show the change.
        self.local_changes += 1
        try:
            return super()._attempt(change, apply, result, kinds)
        finally:
            self.local_changes += 1
