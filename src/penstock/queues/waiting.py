"""Who is served next when many fetches wait for the records of one share-partition.

First come, first served, but nobody takes more than an equal part of what is there: with a hundred records and ten who
wait, each gets ten, whatever it asked for, and one slow consumer cannot sit on the whole window while the others
starve. A fetch may wait at many partitions; it leaves all of them when one has served it. Joining, leaving and serving
cost the same however many wait.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Fetch = TypeVar("Fetch", bound=Hashable)


class WaitingFetches(Generic[Fetch]):
    def __init__(self) -> None:
        self._order: dict[Fetch, None] = {}

    def __len__(self) -> int:
        return len(self._order)

    def join(self, fetch: Fetch) -> None:
        self._order.setdefault(fetch, None)

    def leave(self, fetch: Fetch) -> None:
        self._order.pop(fetch, None)

    def first(self) -> Fetch | None:
        return next(iter(self._order), None)

    def all(self) -> list[Fetch]:
        return list(self._order)

    def fair_part(self, fetch: Fetch, max_records: int, acquirable: int) -> int:
        """How many of the acquirable records this fetch may take, whether it already waits or has just come."""
        rivals = len(self._order) - (fetch in self._order)
        return min(max_records, -(-acquirable // (rivals + 1)))
