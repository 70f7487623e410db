"""Takes away what an operating system does not have, before anything else is imported.

With this folder in PYTHONPATH and PENSTOCK_TEST_WITHOUT=macos or windows, Penstock runs on what is left: `portable`
then chooses the ways that it would choose there. `make test-portable` runs tests like that.

What other systems have in another form is here in that form: locks and pairs of sockets as on Windows, `sendfile` as on
macOS. /proc is there for psutil alone, with which tests measure.
"""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import builtins
import errno
import io
import mmap
import os
import shutil
import signal
import socket
import stat
import subprocess  # noqa: F401  # decides by msvcrt on which system it is, and must not see ours
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

_MACOS = (
    (os, "RWF_NOWAIT"),
    (os, "fdatasync"),
    (os, "memfd_create"),
    (os, "posix_fadvise"),
    (os, "sched_getaffinity"),
    (os, "sched_setaffinity"),
    (os, "SCHED_BATCH"),
    (socket, "MSG_MORE"),
    (time, "CLOCK_BOOTTIME"),
)
_WINDOWS = (
    *_MACOS,
    (os, "preadv"),
    (os, "pread"),
    (os, "pwrite"),
    (os, "pwritev"),
    (os, "sendfile"),
    (os, "nice"),
    (os, "statvfs"),
    (os, "geteuid"),
    (os, "fork"),
    (os, "O_CLOEXEC"),
    (os, "O_DIRECTORY"),
    (mmap, "MAP_ANONYMOUS"),
    (signal, "SIGCHLD"),
    (signal, "SIGUSR1"),
    (signal, "pthread_sigmask"),
    (socket, "AF_UNIX"),
)


def _hide_proc() -> None:
    def refusing(opened: Callable[..., Any]) -> Callable[..., Any]:
        def without_proc(path: Any, *arguments: Any, **options: Any) -> Any:
            is_hidden = isinstance(path, str | Path) and str(path).startswith("/proc/")
            if is_hidden and not str(sys._getframe(1).f_globals.get("__name__")).startswith("psutil"):
                raise FileNotFoundError(errno.ENOENT, "this system has no /proc", str(path))
            return opened(path, *arguments, **options)

        return without_proc

    for module, name in ((builtins, "open"), (io, "open"), (os, "listdir"), (os, "stat")):
        setattr(module, name, refusing(getattr(module, name)))


def _send_files_as_macos() -> None:
    """From files to sockets alone, and 0 for a length is all that there is."""
    sendfile = os.sendfile

    def of_macos(out_fd: int, in_fd: int, offset: int, count: int, *_: object) -> int:
        if not stat.S_ISSOCK(os.fstat(out_fd).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        return sendfile(out_fd, in_fd, offset, count or os.fstat(in_fd).st_size - offset)

    os.sendfile = of_macos  # type: ignore[assignment]


def _lock_files_as_windows() -> None:
    import fcntl

    def locking(fd: int, mode: int, _bytes: int) -> None:
        assert mode == msvcrt.LK_NBLCK
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.LK_NBLCK = 2
    msvcrt.locking = locking
    sys.modules["msvcrt"] = msvcrt
    for module in ("fcntl", "resource"):
        sys.modules[module] = None  # type: ignore[assignment]


def _connect_sockets_as_windows() -> None:
    def socketpair(*_: object) -> tuple[socket.socket, socket.socket]:
        """Over the loopback interface: there are no Unix sockets."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            first = socket.create_connection(listening.getsockname())
            second, _address = listening.accept()
        return first, second

    def no_sendmsg(_: socket.socket) -> object:
        raise AttributeError("this system has no sendmsg")

    socket.socketpair = socketpair  # type: ignore[assignment]
    socket.socket.sendmsg = property(no_sendmsg)  # type: ignore[assignment, method-assign]
    asyncio.selector_events._HAS_SENDMSG = False  # type: ignore[attr-defined]  # it has looked already


def _run_loops_as_windows() -> None:
    """No loop handles signals, and the one that programs get by default does not watch sockets for them."""

    def refuse(*_: object) -> None:
        raise NotImplementedError

    class DefaultLoop(asyncio.SelectorEventLoop):
        add_reader = add_writer = refuse  # type: ignore[assignment]

    class Policy(asyncio.DefaultEventLoopPolicy):
        _loop_factory = DefaultLoop

    asyncio.SelectorEventLoop.add_signal_handler = refuse  # type: ignore[assignment, method-assign]
    asyncio.set_event_loop_policy(Policy())


def _measure_disks_as_windows() -> None:
    """The standard library has another way there."""
    disk_usage, statvfs = shutil.disk_usage, os.statvfs

    def measured(path: Any) -> Any:
        os.statvfs = statvfs
        try:
            return disk_usage(path)
        finally:
            del os.statvfs

    shutil.disk_usage = measured


def _take_away(system: str) -> None:
    if system == "windows" and hasattr(os, "statvfs"):
        _measure_disks_as_windows()
    for module, name in {"macos": _MACOS, "windows": _WINDOWS}[system]:
        if hasattr(module, name):
            delattr(module, name)
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    _hide_proc()
    if system == "macos":
        if hasattr(os, "sendfile"):
            _send_files_as_macos()
    elif os.name != "nt":
        _lock_files_as_windows()
        _connect_sockets_as_windows()
        _run_loops_as_windows()


if without := os.environ.get("PENSTOCK_TEST_WITHOUT"):
    _take_away(without)
