"""Listeners with SASL on a cluster: users and rules change at one broker and are asked at another."""

from __future__ import annotations

from penstock.simulation.node import Node
from tests.simulation.clusters import ClusterStreams, OnCluster
from tests.simulation.logins import LoggedIn


class OnLoggedInCluster(LoggedIn, OnCluster):
    """Brokers hear of changes from the catalog, and log in at each other."""

    lasts_ms = 8_000
    late_seconds = 8.0
    changes = 40

    def home(self, partition: int) -> Node:
        return self.world.nodes[self._leader(self.topics[0], partition) - 1]

    def is_excused(self, node: Node) -> bool:
        """A broker that cannot reach the database goes by what it knows; it leads nothing when its lease is over."""
        if not node.is_serving:
            return True
        membership = node.broker.parts.membership
        return membership is None or membership.is_suspended


class ClusterLogins(OnLoggedInCluster, ClusterStreams):
    """`logins`: each broker hears from the catalog of users and rules that others have changed, and brokers log in with
    each other."""

    name = "cluster-logins"
