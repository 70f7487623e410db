"""Keeps two clusters from sharing an address of the object store.

Each keeps its objects below its own id, so they would not overwrite each other. But whoever deletes "the objects of the
old cluster", sets a lifecycle rule or restores a copy acts on an address, and would meet both. So a new cluster leaves
a mark where it keeps its objects, and is refused where it finds those of another. Incarnations of one cluster share its
id, and may share its address.
"""

from __future__ import annotations

import re

from penstock.log.errors import StorageError
from penstock.storage.objects.key_space import KINDS
from penstock.storage.objects.store import ObjectStore

_MARKS = "cluster"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def claim_address(store: ObjectStore, cluster_id: str) -> None:
    """Claim the store's address for a new cluster. Raises StorageError with what to do if another cluster uses it.

    The mark comes before the look, so that of two clusters that start at the same time at least one is refused.
    """
    mark = f"{cluster_id}/{_MARKS}/mark"
    store.put(mark, [cluster_id.encode()])
    other = next((name for name in store.folders("") if name != cluster_id and _is_cluster(store, name)), None)
    if other is None:
        return
    store.delete([mark])
    raise StorageError(
        f"{store.shown} holds the objects of another cluster, {other}: give this one a prefix of its own, as in "
        f"--store {store.shown}-2. If that cluster is gone for good, delete what is below {store.shown}/{other}"
    )


def _is_cluster(store: ObjectStore, name: str) -> bool:
    if _CLUSTER_ID.fullmatch(name) is None:
        return False
    return any(next(store.list(f"{name}/{kind}/"), None) is not None for kind in (_MARKS, *KINDS))
