"""Calls that not every operating system has, each with another way beside it, chosen by what is there.

Linux has the fast ways. macOS lacks `fdatasync`, reads that do not wait, and files in memory; Windows also lacks reads
and writes at a position, `sendfile` and `flock`. The choice is made once, when this module is imported, so fast ways
cost nothing. What sockets lack is chosen in `broker.transport`.
"""

from __future__ import annotations

import errno
import mmap
import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""For every `os.open`: not handed on to other programs, and bytes as they are."""

HAS_SENDFILE = hasattr(os, "sendfile")

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_position_lock = threading.Lock()


class CannotTell(Exception):
    """This system, or the file system, cannot say what is in memory."""


# -- files -----------------------------------------------------------------------------------------------------------


def _read_at(fd: int, size: int, position: int) -> bytes:
    with _position_lock:
        os.lseek(fd, position, os.SEEK_SET)
        return os.read(fd, size)


def _write_at(fd: int, data: Buffer, position: int) -> int:
    with _position_lock:
        os.lseek(fd, position, os.SEEK_SET)
        return os.write(fd, data)


def _full_sync(fd: int) -> None:
    """On macOS `fsync` leaves the data in the drive's own cache."""
    import fcntl

    fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined, unused-ignore]


def _choose_datasync() -> Callable[[int], None]:
    if hasattr(os, "fdatasync"):
        return os.fdatasync
    return _full_sync if sys.platform == "darwin" else os.fsync


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _read_at)
"""Up to `size` bytes of a file from a position on: `(fd, size, position)`."""
write_at: Callable[[int, Buffer, int], int] = getattr(os, "pwrite", _write_at)
"""Write at a position, and say how much: `(fd, data, position)`."""
datasync: Callable[[int], None] = _choose_datasync()
"""Make what was written to a file survive a power cut."""


def read_into_at(fd: int, buffer: memoryview, position: int) -> int:
    """Fill a buffer from a position on, as far as one call reads. Returns how far."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], position)
    data = read_at(fd, len(buffer), position)
    buffer[: len(data)] = data
    return len(data)


def read_cached(fd: int, buffer: Any, position: int) -> int:
    """As `read_into_at`, of what is in memory. Raises BlockingIOError if that is nothing, or CannotTell."""
    if _NO_WAIT is None:
        raise CannotTell
    try:
        return os.preadv(fd, [buffer], position, _NO_WAIT)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise CannotTell from error
        raise


def sync_folder(path: str) -> None:
    """Make the entries of a folder survive a power cut, where that can be asked for."""
    try:
        fd = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    except PermissionError:
        if os.name == "nt":
            return  # folders cannot be opened there, and their entries are written through
        raise
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock_file(fd: int) -> None:
    """Lock a file for this process until it is closed. Raises OSError if another process has it."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Space(NamedTuple):
    total_bytes: int
    usable_bytes: int

    @property
    def is_low(self) -> bool:
        """Whether somebody should do something: a twentieth is left, or less than a gigabyte where that is little."""
        return self.usable_bytes < max(self.total_bytes / 20, min(1 << 30, self.total_bytes / 10))


def disk_space(path: str | os.PathLike[str]) -> Space:
    used = shutil.disk_usage(path)
    return Space(used.total, used.free)


# -- memory, processes ------------------------------------------------------------------------------------------------


def private_memory(size: int) -> memoryview:
    """Memory that goes back to the system as a whole when nobody uses it any more."""
    if hasattr(mmap, "MAP_ANONYMOUS"):
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return memoryview(bytearray(size))


def cores() -> int:
    """How many cores this process may use, as far as the system says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library that this process is linked with; None where there is none of that name."""
    import ctypes

    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)  # type: ignore[no-any-return]
    except (OSError, AttributeError, TypeError):  # TypeError: Windows knows no library without a name
        return None


def boot_session() -> bytes | None:
    """A name for the time since this machine was booted, another one after each boot; None where there is no such name.

    What was written during the same session is at least in the page cache, however the process ended.
    """
    try:
        with open(_BOOT_ID, "rb") as file:
            return file.read().strip()
    except OSError:
        return _boot_session_of_macos()


def _boot_session_of_macos() -> bytes | None:
    import ctypes

    sysctlbyname = c_function("sysctlbyname")
    if sysctlbyname is None:
        return None
    value = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(value))
    failed = sysctlbyname(b"kern.bootsessionuuid", value, ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else value.value


def host_name() -> str:
    return platform.node() or "an unnamed machine"


def open_files_max() -> int | None:
    """How many files this process may have open; None where there is no such limit."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
