"""Tells systemd that the broker is ready, alive and stopping (the protocol of sd_notify(3), `Type=notify`).

Outside of systemd there is no NOTIFY_SOCKET, and nothing is sent. The sign of life is sent by the event loop, so a
broker whose loop is stuck is restarted if the unit sets `WatchdogSec`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

_MICROSECONDS = 1_000_000


class Notifier:
    def __init__(self, environment: Mapping[str, str], process_id: int) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.period = 0.0 if self._address is None else _watchdog_seconds(environment, process_id) / 2
        """How often a sign of life is to be sent; 0 if nobody waits for one."""
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """Say that clients can connect."""
        self._send(f"READY=1\nSTATUS={status}")

    def stay_alive(self) -> None:
        """Say from now on, from the running event loop, that the broker is alive."""
        if self.period:
            self.alive()
            self._timer = asyncio.get_running_loop().call_later(self.period, self.stay_alive)

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
            notification.setblocking(False)
            try:
                notification.sendto(text.encode(), self._address)
            except OSError:
                pass  # systemd is being restarted, or its queue is full: the next sign of life says the same


def _address(path: str) -> str | None:
    if path.startswith("@"):
        return "\0" + path[1:]
    return path if path.startswith("/") else None


def _watchdog_seconds(environment: Mapping[str, str], process_id: int) -> float:
    """How often systemd wants to hear of this process at least; 0 for never."""
    of = environment.get("WATCHDOG_PID", "")
    period = environment.get("WATCHDOG_USEC", "")
    if not period.isdecimal() or of not in ("", str(process_id)):
        return 0.0
    return int(period) / _MICROSECONDS
