"""Run several brokers on one machine: lock the folder, bind the ports, supervise the processes, say when all are ready.

The supervisor binds the sockets and keeps them, so a broker that is started again has the ports that it had, and
clients that connect meanwhile wait for it instead of being refused. What brokers need is imported before they are
forked, so that they share its memory.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import ExitStack

from penstock import __version__
from penstock.broker.cluster_folder import check_embedded
from penstock.broker.config import BrokerConfig, check_listeners
from penstock.broker.config.providers import resolve
from penstock.broker.config.refusals import check_copies
from penstock.broker.foundation import Settings
from penstock.broker.listeners import ListenError, bind, resolve_addresses
from penstock.broker.logs import LogFormat, configure
from penstock.broker.processes.child import Reports, run_child
from penstock.broker.processes.folder import prepare
from penstock.broker.processes.plan import Plan, plan
from penstock.broker.processes.supervisor import Ready, Supervisor
from penstock.broker.run import Companion, StartCompanion, milliseconds_since_start
from penstock.broker.systemd import Notifier
from penstock.log.files import FolderLock, make_data_folder


def run_several(
    settings: Settings,
    count: int,
    log_format: LogFormat = LogFormat.TEXT,
    start_companion: StartCompanion | None = None,
) -> None:
    """Serve with `count` brokers until SIGINT or SIGTERM.

    Raises ListenError, ConfigError, CatalogError, StorageError, FolderInUse or ProcessesFailed with what to do next.
    """
    configure(os.environ, log_format)
    configs = resolve(settings.configs, os.environ)
    config = BrokerConfig(configs)
    check_copies(configs)
    check_listeners(configs, [*settings.listen, *settings.advertise])
    plans = plan(settings, configs, config.node_id, count)
    make_data_folder(settings.data)
    with ExitStack() as undo:
        undo.callback(FolderLock(settings.data).release)
        check_embedded(settings.data)
        note = prepare(settings.data, plans[0].node_ids)
        if note:
            print(note, flush=True)
        _Brokers(plans, log_format, start_companion, undo).run()


class _Brokers:
    def __init__(
        self, plans: list[Plan], log_format: LogFormat, start_companion: StartCompanion | None, undo: ExitStack
    ) -> None:
        self._plans = plans
        self._data = plans[0].settings.data
        self._log_format = log_format
        self._start_companion = start_companion
        self._undo = undo
        self._notifier = Notifier(os.environ, os.getpid())
        self._companion: Companion | None = None
        self._bound = [_bind(each, len(plans), undo) for each in plans]
        self._lifeline, self._held = os.pipe()
        undo.callback(os.close, self._lifeline)
        undo.callback(os.close, self._held)

    def run(self) -> None:
        _load()
        gc.collect()
        gc.freeze()  # what is there by now is not looked at by the collector, which would make copies of its memory
        names = [f"broker {each.node_id}" for each in self._plans]
        supervisor = Supervisor(
            names,
            self._child,
            on_ready=self._ready,
            on_stopping=self._stopping,
            every=self._notifier.period,
            beat=self._notifier.alive,
        )
        try:
            supervisor.run()
        finally:
            if self._companion is not None:
                self._companion.end()

    def _child(self, place: int, reports: int) -> int:
        os.close(self._held)
        for at, sockets in enumerate(self._bound):
            if at != place:
                _close(sockets)
        return run_child(self._plans[place], self._bound[place], Reports(reports), self._lifeline, self._log_format)

    def _ready(self, ready: list[Ready]) -> None:
        addresses = ",".join(each.addresses for each in ready)
        count = len(ready)
        print(
            f"Penstock {__version__} serves {addresses} from {self._data} with {count} broker{'s' * (count > 1)}"
            f" (ready in {milliseconds_since_start()} ms)",
            flush=True,
        )
        for line in ready[0].remarks:
            print(line, file=sys.stderr, flush=True)
        self._notifier.ready(f"serves {addresses}")
        if self._start_companion is not None:
            self._companion = self._start_companion(addresses)

    def _stopping(self) -> None:
        self._notifier.stopping()
        for sockets in self._bound:
            _close(sockets)


def _bind(each: Plan, count: int, undo: ExitStack) -> list[socket.socket]:
    """The sockets of one broker's listeners, in the order of its settings."""
    config = BrokerConfig(each.settings.configs)
    addresses = resolve_addresses(each.settings.listen, config, each.settings.unnamed.value)
    sockets: list[socket.socket] = []
    undo.callback(_close, sockets)
    for address in addresses:
        try:
            sockets.append(bind(address))
        except ListenError as error:
            raise ListenError(f"broker {each.node_id} of {count} cannot listen: {error}") from error
    return sockets


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _load() -> None:
    """Import what every one of several brokers needs at its start."""
    import penstock.broker.authentication
    import penstock.broker.catalog_follower
    import penstock.broker.group_coordinator
    import penstock.broker.inter_broker
    import penstock.broker.transaction_coordinator  # noqa: F401
