"""Producer ids, unique for the life of the cluster.

They come in blocks of a thousand that the catalog remembers before the first of them is given away, so that none is
ever given twice, whatever happens to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.server import Broker


class ProducerIds:
    """Hands out producer ids from the current block."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0
        self._end = 0

    def next(self) -> int:
        if self._next == self._end:
            block = self._broker.catalog.allocate_producer_id_block()
            self._next, self._end = block.start, block.stop
        self._next += 1
        return self._next - 1
