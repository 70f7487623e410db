"""Makes a broker a member of a cluster: first its lease, then its storage, which leads under the epoch it was given.

What the broker is connected to (the catalog, the leases, the storage) is handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.foundation import Foundation, Shared
from penstock.broker.membership import Identity, Membership, boot_time, refuses
from penstock.broker.placement import among_members

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.foundation import OnFailure
    from penstock.broker.listeners import Listener
    from penstock.broker.world import World
    from penstock.catalog.leases import Leases, MemberCatalog, MemberReader
    from penstock.catalog.shared import HostAndPort
    from penstock.storage.contract import LeasedStorage


class Links(NamedTuple):
    """How a broker reaches what the cluster shares."""

    catalog: MemberCatalog
    """The event loop's."""
    reader: MemberReader
    """The same catalog, for the thread that holds the lease."""
    leases: Leases


def join(
    links: Links,
    instance_id: str,
    open_storage: Callable[[int], LeasedStorage],
    open_listeners: Callable[[], list[Listener]],
    config: BrokerConfig,
    world: World,
    on_failure: OnFailure,
    *,
    clock: Callable[[], float] = boot_time,
    refuses: Callable[[HostAndPort], bool] = refuses,
) -> Foundation:
    """`open_storage` is handed the broker's epoch. Raises NodeIdInUse or CatalogError, with what to do.

    The foundation's `release` ends the membership. If the storage cannot be opened, the lease is given back.
    """
    membership = Membership(
        Identity(config.node_id, instance_id, config.broker_rack),
        links.catalog,
        links.reader,
        links.leases,
        world,
        config.broker_session_timeout_ms / 1000,
        on_failure,
        renewal_seconds=config.broker_heartbeat_interval_ms / 1000,
        is_balancing=lambda: config.auto_leader_rebalance_enable,
        hands_over=config.controlled_shutdown_enable,
        clock=clock,
        refuses=refuses,
    )
    epoch = membership.register()
    with ExitStack() as unused:
        unused.callback(links.reader.unregister_broker, config.node_id, epoch)
        storage = open_storage(epoch)
        unused.pop_all()
    shared = Shared(links.catalog, among_members(membership.nodes), instance_id, None, membership, storage)
    return Foundation(links.catalog, storage, open_listeners, membership.stop, shared=shared)
