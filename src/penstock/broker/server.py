"""The life of a broker: one process, one event loop, one owner of all state.

`Broker` lays the foundation, has the parts built on it, serves, and stops in an order that loses nothing. Everything
runs in the thread of its event loop, so nothing is locked; only what waits for a disk happens elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack

from penstock import guard
from penstock.broker.config import BrokerConfig, check_listeners
from penstock.broker.config.providers import resolve
from penstock.broker.config.refusals import check_copies
from penstock.broker.exposure import check_monitoring, decide, is_public
from penstock.broker.foundation import Foundation, LayFoundation, Settings, Shared, local_foundation
from penstock.broker.listeners import resolve_addresses
from penstock.broker.parts import Parts
from penstock.broker.world import LoopWorld, World
from penstock.catalog.contract import CatalogError
from penstock.catalog.shared import HostAndPort

log = logging.getLogger("penstock.broker")

_STOP_SECONDS = 5.0


class Broker:
    def __init__(
        self,
        settings: Settings,
        lay_foundation: LayFoundation = local_foundation,
        world_on: Callable[[asyncio.AbstractEventLoop], World] = LoopWorld,
    ) -> None:
        self.settings = settings
        configs = resolve(settings.configs, os.environ)
        self.config = BrokerConfig(configs)
        if settings.store is None:
            check_copies(configs)
        check_listeners(configs, [*settings.listen, *settings.advertise])
        self.warnings: tuple[str, ...] = ()
        self.parts: Parts
        self.failure: BaseException | None = None
        self._lay_foundation = lay_foundation
        self._world_on = world_on
        self._foundation: Foundation
        self._epoch = -1
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Open everything and begin to listen. Raises ListenError, StorageError or ConfigError with what to do."""
        world = self._world_on(asyncio.get_running_loop())
        self._foundation = self._lay_foundation(self.settings, self.config, world, self._foundation_failed)
        with ExitStack() as undo:
            undo.callback(self._foundation.release)
            undo.callback(self._foundation.catalog.close)
            self._decide_exposure()
            self.parts = parts = Parts(self.config, world, self._foundation)
            parts.open()
            advertised = resolve_addresses(
                self.settings.advertise or self.config.advertised_listeners,
                self.config,
                self.settings.unnamed.value,
            )
            undo.callback(parts.acceptor.close_listeners)
            parts.acceptor.start(self._foundation.open_listeners(), advertised)
            if listen := self.config.penstock_metrics_listen:
                await parts.monitoring.start(listen, parts.visitors if is_public(listen) else None)
                if listen.endswith(":0"):  # clients learn from the configs where to look
                    self.config.settle("penstock.metrics.listen", f"{listen[:-1]}{parts.monitoring.port}")
            if parts.shared is not None:
                self._join(parts.shared)
            undo.pop_all()
        parts.upkeep.start()
        if parts.measuring is not None:
            parts.measuring.start()

    def _join(self, shared: Shared) -> None:
        """Tell the other brokers where this one is, now that it is ready, and begin to follow what they change."""
        cluster = self.parts.cluster
        self.parts.build("peers")
        endpoints = {name: HostAndPort(each.host, each.port) for name, each in cluster.advertised.items()}
        if shared.membership is not None:
            assert shared.storage is not None
            assert self.parts.follower is not None
            follower, topics = self.parts.follower, self.parts.topics
            shared.membership.start(endpoints, shared.storage, follower.catch_up, topics.give_up, self.stop)
            return
        self._epoch = shared.catalog.register_broker(
            cluster.node_id, shared.instance_id, self.config.broker_rack, endpoints
        )
        assert self.parts.follower is not None
        self.parts.follower.start()

    async def _leave(self, shared: Shared) -> None:
        if shared.membership is not None:
            await shared.membership.leave()
            return
        guard.attempt("leaving the cluster", self._unregister, shared)

    def _unregister(self, shared: Shared) -> None:
        assert self.parts.follower is not None
        self.parts.follower.stop()
        shared.catalog.unregister_broker(self.parts.cluster.node_id, self._epoch)

    @property
    def port(self) -> int:
        """The port of the first listener, also when it was chosen by the system."""
        return self.parts.acceptor.port

    @property
    def bootstrap(self) -> str:
        """What to put into a client's `bootstrap.servers`."""
        return self.parts.cluster.bootstrap

    async def serve(self) -> None:
        """Serve until `stop` is called, the storage fails or the catalog is lost."""
        await self._stopping.wait()
        await self._close()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self._stopping.set()

    def _decide_exposure(self) -> None:
        settings = self.settings
        data, has_users = str(settings.data), bool(self._foundation.catalog.credentials())
        exposure = decide(
            settings.listen,
            self.config,
            unnamed=settings.unnamed,
            data=data,
            has_users=has_users,
            insecure=settings.insecure,
        )
        monitoring = self.config.penstock_metrics_listen
        if monitoring and is_public(monitoring):
            check_monitoring(monitoring, self.config, data=data, has_users=has_users)
        settings.unnamed = exposure.unnamed
        self.warnings = exposure.warnings

    async def _close(self) -> None:
        """Answer what is under way, flush, and leave the storage clean."""
        parts = self.parts
        if parts.shared is not None:
            await self._leave(parts.shared)
        parts.acceptor.close_listeners()
        parts.upkeep.stop()
        if parts.is_built("cleaning"):
            parts.cleaning.stop()
        if parts.is_built("authenticator"):
            parts.authenticator.stop()
        if parts.is_built("peers"):
            parts.peers.stop()
        if parts.measuring is not None:
            parts.measuring.stop()
        await parts.monitoring.stop()
        await parts.dispatcher.stop()
        parts.stop_coordinators()
        await self._drain()
        parts.acceptor.close_connections()
        try:
            parts.storage.close()
        finally:
            parts.catalog.close()
            self._foundation.release()

    async def _drain(self) -> None:
        """Give appends that wait for the disk, and responses on their way, a moment to get out."""
        world, dispatcher, durability = self.parts.world, self.parts.dispatcher, self.parts.durability
        deadline = world.monotonic() + _STOP_SECONDS
        while world.monotonic() < deadline and self.failure is None:
            if durability.is_idle and not any(connection.has_unsent for connection in dispatcher.connections):
                return
            await asyncio.sleep(0.01)

    def _foundation_failed(self, error: BaseException) -> None:
        """Records or metadata are not kept, or not this broker's any more: stop rather than guess."""
        what = "catalog" if isinstance(error, CatalogError) else "storage"
        log.critical("%s failed, stopping: %s", what, error)
        self.failure = error
        self.stop()
