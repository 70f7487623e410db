"""Connections whose clients have not proved who they are: how many, for how long, and with how much memory.

Whoever reaches a port can open connections and say nothing, so what is not authenticated is bounded. When a newcomer is
one too many, one that came before is closed: the oldest of its own address if that has more than its share, else the
oldest of the address that has most. Who opens thousands of connections pushes out their own; everybody else gets in.
Who takes too long is closed as well. While frames that are still arriving need too much memory, the address that needs
most of it loses its oldest.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig

log = logging.getLogger("penstock.broker")


class Newcomer(Protocol):
    @property
    def peer_host(self) -> str: ...

    def close(self) -> None: ...


class Newcomers:
    def __init__(self, config: BrokerConfig, monotonic: Callable[[], float]) -> None:
        self._config = config
        self._monotonic = monotonic
        self._since: dict[Newcomer, float] = {}  # the oldest first
        self._bytes: dict[Newcomer, int] = {}
        self._total_bytes = 0
        self._hosts: Counter[str] = Counter()
        self._log = BoundedLog(log, monotonic, "unauthenticated connections were closed")
        self.evicted_total = 0

    def __len__(self) -> int:
        return len(self._since)

    def add(self, newcomer: Newcomer) -> None:
        """Count a connection until it is `settled`; others may be closed for it."""
        if newcomer in self._since:
            return
        host = newcomer.peer_host
        self._since[newcomer] = self._monotonic()
        self._hosts[host] += 1
        if self._hosts[host] > self._config.penstock_unauthenticated_connections_max_per_ip:
            self._evict(self._oldest_of(host), "its address has too many")
        elif len(self._since) > self._config.penstock_unauthenticated_connections_max:
            self._evict(self._oldest_of(self._hosts.most_common(1)[0][0]), "there are too many")

    def make_room(self) -> bool:
        """Close one connection because a broker has no room for others; False if all of them are authenticated."""
        if not self._since:
            return False
        self._evict(self._oldest_of(self._hosts.most_common(1)[0][0]), "there is no room (max.connections)")
        return True

    def settled(self, newcomer: Newcomer) -> None:
        """The client is authenticated, or gone."""
        if self._since.pop(newcomer, None) is None:
            return
        self._total_bytes -= self._bytes.pop(newcomer, 0)
        host = newcomer.peer_host
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]

    def expects(self, newcomer: Newcomer, size: int) -> None:
        """A frame of this size has begun to arrive."""
        if newcomer not in self._since:
            return
        self._total_bytes += size - self._bytes.get(newcomer, 0)
        self._bytes[newcomer] = size
        while self._total_bytes > self._config.penstock_unauthenticated_bytes_max and self._bytes:
            self._evict(self._oldest_of_the_largest(), "what is arriving needs too much memory")

    def sweep(self) -> None:
        """Close those who have had their time."""
        too_old = self._monotonic() - self._config.penstock_authentication_timeout_ms / 1000
        late = []
        for newcomer, since in self._since.items():
            if since > too_old:
                break
            late.append(newcomer)
        for newcomer in late:
            self._evict(newcomer, "it took too long to authenticate")

    def metrics(self) -> Iterator[Metric]:
        yield Metric("penstock_unauthenticated_connections").add(len(self))
        yield Metric("penstock_unauthenticated_connections_evicted_total").add(self.evicted_total)

    def _oldest_of(self, host: str) -> Newcomer:
        return next(each for each in self._since if each.peer_host == host)

    def _oldest_of_the_largest(self) -> Newcomer:
        """Of the address whose frames need most memory, the oldest that has one on its way."""
        by_host: Counter[str] = Counter()
        for each, size in self._bytes.items():
            by_host[each.peer_host] += size
        host = by_host.most_common(1)[0][0]
        return next(each for each in self._bytes if each.peer_host == host)

    def _evict(self, newcomer: Newcomer, why: str) -> None:
        self.evicted_total += 1
        self._log.warning("closed an unauthenticated connection of %s: %s", newcomer.peer_host, why)
        self.settled(newcomer)
        newcomer.close()
