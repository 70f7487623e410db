"""Check every few seconds, in a thread, that this broker still owns its catalog, and stop it when it does not."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.broker.world import Timer, WaitsFor, World
from penstock.catalog.contract import CatalogError, CatalogLost

log = logging.getLogger("penstock.broker")

CHECK_SECONDS = 2.0


class CatalogWatch:
    """A server that is away says nothing about who owns the catalog: that is logged once, and asked again."""

    def __init__(self, world: World, check: Callable[[], None], on_lost: Callable[[CatalogError], None]) -> None:
        self._world = world
        self._check = check
        self._on_lost = on_lost
        self._timer: Timer | None = None
        self._is_stopped = False
        self._is_away = False
        self.confirmed = world.monotonic()
        """When it was last known that this broker owns its catalog."""

    def start(self) -> None:
        self._timer = self._world.call_later(CHECK_SECONDS, self._begin)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._world.in_thread(self._outcome, WaitsFor.SERVER).add_done_callback(lambda done: self._end(done.result()))

    def _outcome(self) -> CatalogError | None:
        try:
            self._check()
        except CatalogError as error:
            return error
        return None

    def _end(self, error: CatalogError | None) -> None:
        if self._is_stopped:
            return
        if isinstance(error, CatalogLost):
            self._on_lost(error)
            return
        if error is None:
            self.confirmed = self._world.monotonic()
        if (error is not None) != self._is_away:
            self._is_away = error is not None
            log.warning("%s", "the catalog is back" if error is None else f"the catalog is away: {error}")
        self.start()
