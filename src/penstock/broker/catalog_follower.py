"""Follows a catalog that several brokers share: what others change is applied here as if it had been changed here.

The catalog says which kinds of things have changed since the version that this broker knows; each kind has a function
that rereads and applies it. That happens in intervals and, because a client may have been told of a change by the
broker that made it, also before a request that rests on metadata, and when something is looked up that is not known
here. `max_age_seconds` bounds how often the catalog is asked for that. Where a thread reads the catalog ahead
(`membership`), it says when to catch up, and nobody else looks.

A kind that could not be applied (the catalog is away, the disk is full) is tried again with the next look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.catalog.contract import CatalogError
from penstock.catalog.shared import Kind, SharedCatalog
from penstock.storage.contract import StorageError
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.broker")

POLL_SECONDS = 0.25

# Brokers first, since leaders refer to them; topics after the configs that are their defaults.
_ORDER = (
    Kind.BROKERS,
    Kind.FEATURES,
    Kind.CONFIGS,
    Kind.TOPICS,
    Kind.ACLS,
    Kind.CREDENTIALS,
    Kind.QUOTAS,
)


class CatalogFollower:
    def __init__(
        self,
        catalog: SharedCatalog,
        world: World,
        apply: Mapping[Kind, Callable[[], None]],
        max_age_seconds: float | None = 0.0,
    ) -> None:
        """`apply` has an entry for each kind; leaders of partitions are applied with the topics. `max_age_seconds` is
        None where somebody else says when to look."""
        self._catalog = catalog
        self._world = world
        self._apply = apply
        self._max_age_seconds = max_age_seconds
        # Everything counts as changed: what has been read by now may be older than what is there.
        self._version = 0
        self._unapplied: frozenset[Kind] = frozenset()
        self._looked_at = -1.0
        self._is_busy = False
        self._timer: Timer | None = None
        self._failures = BoundedLog(log, world.monotonic, "changes by other brokers could not be followed")

    def start(self) -> None:
        if self._max_age_seconds is None:
            return
        self._timer = self._world.call_later(POLL_SECONDS, self._poll)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        self.catch_up()
        if self._timer is not None:
            self._timer = self._world.call_later(POLL_SECONDS, self._poll)

    def look(self) -> None:
        """Catch up, unless that was done a moment ago."""
        if self._max_age_seconds is None:
            return
        if not self._max_age_seconds or self._world.monotonic() - self._looked_at >= self._max_age_seconds:
            self.catch_up()

    def catch_up(self) -> bool:
        """Apply what has changed since the last time. What fails is logged, and tried again the next time: then the
        answer is False."""
        if self._is_busy:
            return True  # what is being applied looks things up
        self._is_busy = True
        try:
            self._looked_at = self._world.monotonic()
            changes = self._catalog.changes_since(self._version)
            kinds = changes.kinds | self._unapplied
            if kinds:
                self._unapplied = frozenset(kind for kind in _in_order(kinds) if not self._applied(kind))
            self._version = changes.version
            return not self._unapplied
        except CatalogError as error:
            self._failures.warning("cannot look for changes by other brokers: %s", error)
            return False
        finally:
            self._is_busy = False

    def _applied(self, kind: Kind) -> bool:
        try:
            self._apply[kind]()
        except (CatalogError, StorageError, KafkaError) as error:
            self._failures.warning("cannot follow what other brokers changed (%s): %s", kind.name.lower(), error)
            return False
        except Exception:
            log.exception("cannot follow what other brokers changed (%s)", kind.name.lower())
            return False
        return True


def _in_order(kinds: frozenset[Kind]) -> list[Kind]:
    if Kind.PARTITIONS in kinds:
        kinds |= {Kind.TOPICS}
    return [kind for kind in _ORDER if kind in kinds]
