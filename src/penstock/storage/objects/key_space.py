"""Below which keys of the store a cluster keeps its objects, and which of them it may remove.

Objects of a cluster begin with its id. A cluster that was made from another's backup, or from a data folder, has an
*incarnation* besides, so that it and its origin never write the same key, though their ids are the same and they may
use the same store. It reads what its origin has written, and removes nothing of it, unless it was told that those
objects are its own: the origin is gone, or the store is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("wal", "segment")
"""What objects are below: bytes of commits, and segments."""


@dataclass(frozen=True, slots=True)
class KeySpace:
    prefix: str = "penstock"
    """What the keys of new objects begin with."""
    owned: tuple[str, ...] = ()
    """The same of earlier incarnations whose objects are this cluster's now."""

    @classmethod
    def of(cls, cluster_id: str, incarnation: str, owned_incarnations: list[str]) -> KeySpace:
        return cls(_prefix(cluster_id, incarnation), tuple(_prefix(cluster_id, each) for each in owned_incarnations))

    @property
    def prefixes(self) -> tuple[str, ...]:
        return (self.prefix, *self.owned)

    def owns(self, key: str) -> bool:
        """Whether an object is this cluster's, to be removed when nothing names it. Incarnations may share an id."""
        return any(
            key.startswith(prefix + "/") and key[len(prefix) + 1 :].split("/", 1)[0] in KINDS
            for prefix in self.prefixes
        )

    def is_of_earlier(self, key: str) -> bool:
        """Whether an object was written by an incarnation whose brokers are all gone."""
        return self.owns(key) and not KeySpace(self.prefix).owns(key)


def _prefix(cluster_id: str, incarnation: str) -> str:
    return f"{cluster_id}/{incarnation}" if incarnation else cluster_id
