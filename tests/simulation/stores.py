"""What a cluster keeps in its object store: how much of it, and whether it is exactly what the commit log names.

The commit log may name only what is stored, from its first moment on, and what it names may not be deleted. When all is
over the store holds nothing else, within a bounded time, and every byte of it is what was committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.simulation.bucket import SimulatedStore
from penstock.simulation.cluster import KEYS, ClusterSimulation
from penstock.simulation.node import EPOCH_MS
from penstock.storage.objects.inspection import inspect

REMOVED_SOON = {"penstock.store.delete.delay.ms": "3000", "penstock.store.orphan.age.ms": "4000"}
_SOON = {
    **REMOVED_SOON,
    "penstock.store.cache.bytes": "1",
    "penstock.store.tail.age.ms": "3000",
}
STORES: tuple[dict[str, str], ...] = (
    {},
    {**_SOON, "penstock.store.tails.bytes": "1", "penstock.store.tail.extents": "2"},
    {**_SOON, "penstock.store.tails.bytes": "1500", "penstock.store.tail.bytes": "600"},
)
"""Configs, one after the other with each seed: all records are small enough to go into PostgreSQL; none of them is, and
segments are stored again and again; some are."""

_LOOK_SECONDS = 2.0
_SETTLED_SECONDS = 120.0

Find = Callable[[str, str], None]


def watch(world: ClusterSimulation, find: Find) -> None:
    """Look at each object when it is named, and when it is deleted."""
    bucket, commits = world.bucket, world.database.commits
    config = world.nodes[0].configs if world.nodes else {}
    grace, orphan_age = (
        int(config.get(f"penstock.store.{name}.ms", 0)) / 1000 for name in ("delete.delay", "orphan.age")
    )

    def named(key: str) -> None:
        if key not in bucket.objects:
            find("named-not-stored", f"the commit log names {key}, which is not in the store")

    def deleted(key: str, stored_at: float) -> None:
        if key in commits.named():
            find("deleted-while-named", f"{key} was deleted, and the commit log names it")
            return
        was_named = key in commits.ever_named
        since = commits.unnamed_at[key] if was_named else stored_at - EPOCH_MS / 1000
        if world.loop.time() - since < (grace if was_named else orphan_age):
            find("deleted-too-early", f"{key} was deleted {world.loop.time() - since:.3f} s after nothing named it")

    commits.on_named, bucket.on_deleted = named, deleted


async def settle(world: ClusterSimulation, find: Find) -> None:
    """Wait until nothing is left over in the store, and see that what is there is what was committed."""
    bucket, commits = world.bucket, world.database.commits
    until = world.now_ms + _SETTLED_SECONDS * 1000
    while world.now_ms < until and bucket.objects.keys() != commits.named():  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    for key in sorted(bucket.objects.keys() - commits.named()):
        find("left-over", f"{key} is in the store, and nothing names it")
    for found in inspect(commits, SimulatedStore.from_outside(bucket), KEYS, lambda done, total: None).findings:
        where = f"partition {found.partition.partition} of {found.partition.topic_id.hex()}" if found.partition else ""
        find("store", f"{found.trouble.value} {where} {found.object_key or ''}: {found.text}")
