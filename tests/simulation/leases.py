"""A broker whose lease is over, as the database counts it, says so, or says nothing."""

from __future__ import annotations

from collections.abc import Callable

from penstock.simulation.cluster import ClusterSimulation
from penstock.simulation.loop import Process


def watch_leases(world: ClusterSimulation, find: Callable[[str, str], None]) -> None:
    """Look at each answer of a broker at the time when it is given.

    A broker counts its lease from before it has asked for it, so it notices the end before the database does. What it
    says from then on must be what a broker without a lease may say.
    """
    nodes = {node.name: node for node in world.nodes}
    found: set[Process] = set()

    def answered(process: Process) -> None:
        node = nodes[process.machine]
        if not node.is_serving or node.process is not process or process in found:
            return
        membership = node.broker.parts.membership
        assert membership is not None
        if not membership.is_suspended and not world.database.holds_lease(node.node_id, membership.epoch):
            found.add(process)
            find("answered-without-lease", f"{process.name} has answered as if it still held its lease")

    world.network.on_answer = answered
