"""Run a broker as a process: the event loop, the signals, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

from penstock import __version__
from penstock.broker.config import describe_unknown
from penstock.broker.foundation import Settings
from penstock.broker.logs import LogFormat, configure
from penstock.broker.server import Broker
from penstock.broker.systemd import Notifier


class Companion(Protocol):
    """What is to end with the broker."""

    def end(self) -> None: ...


StartCompanion = Callable[[str], Companion]


def run(
    settings: Settings, log_format: LogFormat = LogFormat.TEXT, start_companion: StartCompanion | None = None
) -> None:
    """Serve until SIGINT or SIGTERM. Raises ListenError, ConfigError or StorageError with what to do next.

    `start_companion` is called with the broker's address when it is ready, and returns what is to end with it.
    """
    configure(os.environ, log_format)
    try:
        import uvloop
    except ImportError:
        # readiness callbacks, which the default loop of Windows does not have
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(_serve(settings, start_companion))
    else:
        uvloop.run(_serve(settings, start_companion))


async def _serve(settings: Settings, start_companion: StartCompanion | None) -> None:
    broker = Broker(settings)
    await broker.start()
    notifier = Notifier(os.environ, os.getpid())

    def stop() -> None:
        notifier.stopping()
        broker.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        _on_signal(number, stop)
    print(
        f"Penstock {__version__} serves {broker.bootstrap} from {settings.data}"
        f" (ready in {milliseconds_since_start()} ms)",
        flush=True,
    )
    for line in remarks(broker):
        print(line, file=sys.stderr, flush=True)
    notifier.ready(f"serves {broker.bootstrap}")
    notifier.stay_alive()
    companion = start_companion(broker.bootstrap) if start_companion is not None else None
    try:
        await broker.serve()
    finally:
        if companion is not None:
            companion.end()


def _on_signal(number: int, callback: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))


def remarks(broker: Broker) -> list[str]:
    """What the owner of a broker should know about how it was started."""
    return [
        *(f"warning: {warning}" for warning in broker.warnings),
        *(f"note: {name} is set, and Penstock has no use for it" for name in broker.config.unused),
        *(f"warning: {describe_unknown(name)}" for name in broker.config.unknown),
    ]


def milliseconds_since_start() -> int:
    """Since the process began, interpreter and imports included: what a user waits for."""
    try:
        with open("/proc/self/stat") as stat:
            started_ticks = int(stat.read().rpartition(")")[2].split()[19])
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")) * 1000)
    except (OSError, ValueError, IndexError, AttributeError):
        return round(time.process_time() * 1000)
