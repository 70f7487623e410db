"""Producer ids, unique for the life of the cluster.

They come in blocks of a thousand that the catalog remembers before the first of them is given away, so that none is
ever given twice, whatever happens to the broker. While the catalog refuses a new block, producers are asked to try
again with COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.catalog.contract import CatalogError
from penstock.wire.errors import CoordinatorLoadInProgress

log = logging.getLogger("penstock.broker")


class ProducerIds:
    """Hands out producer ids from the current block."""

    def __init__(self, allocate_block: Callable[[], range]) -> None:
        self._allocate_block = allocate_block
        self._next = 0
        self._end = 0

    def next(self) -> int:
        if self._next == self._end:
            try:
                block = self._allocate_block()
            except CatalogError as error:
                log.error("cannot allocate producer ids: %s", error)
                raise CoordinatorLoadInProgress(str(error)) from error
            self._next, self._end = block.start, block.stop
        self._next += 1
        return self._next - 1
