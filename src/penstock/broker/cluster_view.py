"""Who is in the cluster: this broker, the others, and under which addresses clients reach them.

There is one broker, so far, and it leads every partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.listeners import Address


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A broker as the clients of one listener see it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class ClusterView:
    def __init__(self, cluster_id: str, node_id: int, rack: str | None) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self._rack = rack
        self._advertised: dict[str, Address] = {}

    def advertise(self, listener_name: str, address: Address) -> None:
        """Say under which address this broker is reached by those who come through a listener."""
        self._advertised[listener_name] = address

    @property
    def bootstrap(self) -> str:
        """What to put into a client's `bootstrap.servers`."""
        return ",".join(f"{address.host}:{address.port}" for address in self._advertised.values())

    def this_broker(self, listener_name: str) -> BrokerEndpoint:
        address = self._advertised[listener_name]
        return BrokerEndpoint(self.node_id, address.host, address.port, self._rack)

    def brokers(self, listener_name: str) -> list[BrokerEndpoint]:
        """All brokers that clients of this listener can talk to."""
        return [self.this_broker(listener_name)]

    @property
    def controller_id(self) -> int:
        return self.node_id

    def replicas(self) -> list[int]:
        """The brokers that keep a partition, its leader first."""
        return [self.node_id]
