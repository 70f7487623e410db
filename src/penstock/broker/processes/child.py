"""One of several brokers, in a process that its supervisor has forked.

It reports through a pipe, as lines of JSON: that it is ready, then every second that its event loop is alive, or why it
has ended. It ends when it gets SIGTERM, and when another pipe, the lifeline, is closed at its other end: then the
supervisor is gone, however that happened. A thread waits for that, so that a broker ends which is too busy to notice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.logs import LogFormat, configure
from penstock.broker.processes.foundation import foundation_among
from penstock.broker.processes.plan import BETWEEN_BROKERS, Plan
from penstock.broker.processes.supervisor import BEAT_SECONDS
from penstock.broker.run import remarks
from penstock.broker.server import Broker

if TYPE_CHECKING:
    import socket

log = logging.getLogger("penstock.broker")

_STOP_SECONDS = 60.0
"""How long a broker without a supervisor may take to stop; then it ends as if it were killed."""


class Reports:
    """The pipe to the supervisor, from the child's side."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def ready(self, addresses: str, lines: Sequence[str]) -> None:
        self._send({"ready": addresses, "remarks": list(lines)})

    def alive(self) -> None:
        self._send({"alive": True})

    def failed(self, why: str) -> None:
        self._send({"failed": why})

    def _send(self, report: dict[str, object]) -> None:
        try:
            os.write(self._descriptor, json.dumps(report).encode() + b"\n")
        except OSError:
            pass  # nobody reads it: the supervisor is gone, or stands still


def run_child(
    plan: Plan, bound: Sequence[socket.socket], reports: Reports, lifeline: int, log_format: LogFormat
) -> int:
    """Serve until SIGTERM, or until the lifeline ends. Returns the exit code of the process."""
    configure(os.environ, log_format, plan.node_id)
    try:
        _run(_serve(plan, bound, reports, lifeline))
    except Exception as error:
        if _is_unexpected(error):
            log.exception("broker %d failed", plan.node_id)
        reports.failed(str(error) or type(error).__name__)
        return 1
    return 0


def _is_unexpected(error: Exception) -> bool:
    """Whether the message alone would not tell what happened."""
    from penstock.broker.config import ConfigError
    from penstock.broker.listeners import ListenError
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import FolderInUse
    from penstock.storage.contract import StorageError

    return not isinstance(error, ConfigError | ListenError | CatalogError | StorageError | FolderInUse)


def _run(serving: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


async def _serve(plan: Plan, bound: Sequence[socket.socket], reports: Reports, lifeline: int) -> None:
    loop = asyncio.get_running_loop()
    broker = Broker(plan.settings, partial(foundation_among, plan.node_ids, bound))

    def orphaned() -> None:
        os.read(lifeline, 1)
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(broker.stop)
        time.sleep(_STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=orphaned, name="penstock-lifeline", daemon=True).start()
    await broker.start()
    loop.add_signal_handler(signal.SIGTERM, broker.stop)
    addresses = [str(address) for name, address in broker.parts.cluster.advertised.items() if name != BETWEEN_BROKERS]
    reports.ready(",".join(addresses), remarks(broker))

    def beat() -> None:
        reports.alive()
        loop.call_later(BEAT_SECONDS, beat)

    beat()
    await broker.serve()
