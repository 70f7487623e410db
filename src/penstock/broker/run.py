"""Run a broker as a process: the event loop, the signals, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from penstock import __version__
from penstock.broker.config import describe_unknown
from penstock.broker.foundation import Settings
from penstock.broker.logs import LogFormat, configure
from penstock.broker.server import Broker


def run(settings: Settings, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Serve until SIGINT or SIGTERM. Raises ListenError, ConfigError or StorageError with what to do next."""
    configure(os.environ.get("PENSTOCK_LOG", "WARNING").upper(), log_format)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(settings))
    else:
        uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    broker = Broker(settings)
    await broker.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, broker.stop)
    print(
        f"Penstock {__version__} serves {broker.bootstrap} from {settings.data}"
        f" (ready in {_milliseconds_since_start()} ms)",
        flush=True,
    )
    for warning in broker.warnings:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    for name in broker.config.unused:
        print(f"note: {name} is set, and Penstock has no use for it", file=sys.stderr, flush=True)
    for name in broker.config.unknown:
        print(f"warning: {describe_unknown(name)}", file=sys.stderr, flush=True)
    await broker.serve()


def _milliseconds_since_start() -> int:
    """Since the process began, interpreter and imports included: what a user waits for."""
    try:
        with open("/proc/self/stat") as stat:
            started_ticks = int(stat.read().rpartition(")")[2].split()[19])
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")) * 1000)
    except (OSError, ValueError, IndexError, AttributeError):
        return round(time.process_time() * 1000)
