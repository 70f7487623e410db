"""What a thread reads of a shared catalog, so that the event loop applies it without waiting for a server."""

from __future__ import annotations

from penstock.catalog.leases import Prefetched
from penstock.catalog.shared import Kind, SharedCatalog
from penstock.wire.config_resources import ResourceType

# Topics before partitions: each topic comes with its rows, or has been deleted meanwhile.
_READS: dict[Kind, tuple[tuple[object, ...], ...]] = {
    Kind.TOPICS: (("topics",), ("partitions",)),
    Kind.PARTITIONS: (("topics",), ("partitions",)),
    Kind.BROKERS: (("brokers",),),
    Kind.CONFIGS: tuple(
        ("config_resources", each) for each in (ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
    ),
    Kind.FEATURES: (("features",), ("features_epoch",)),
    Kind.ACLS: (("acls",),),
    Kind.CREDENTIALS: (("credentials",),),
    Kind.QUOTAS: (("quotas",),),
}


def read_ahead(
    catalog: SharedCatalog, version: int, local_changes: int, also: frozenset[Kind] = frozenset()
) -> Prefetched | None:
    """See `leases.MemberReader.prefetch`."""
    changes = catalog.changes_since(version)
    kinds = changes.kinds | also
    if not kinds:
        return None
    rows: dict[tuple[object, ...], object] = {}
    for kind in sorted(kinds):
        for call in _READS[kind]:
            if call not in rows:
                name, *arguments = call
                rows[call] = getattr(catalog, str(name))(*arguments)
    return Prefetched(changes.version, kinds, local_changes, rows)
