"""What the data folder remembers between runs: recovery points, log start offsets, and whether it was closed cleanly.

The clean-shutdown mark is written last on a graceful stop and removed first on a start: while it is there, no log needs
to be checked. The checkpoints are refreshed now and then, so that recovery after a crash starts where they say.

A broker that is killed loses nothing, because the page cache outlives it. A machine that goes down takes along what was
not on disk. The two are told apart by the kernel's boot id, which the folder keeps: if it is another one now, or none
is known, and the folder was not closed cleanly, writes may have been lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint, write_checkpoint
from penstock.log.files import remove_if_there, sync_path, write_file
from penstock.log.partition import PartitionLog

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOT_ID = ".penstock_boot"
_KERNELS_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = folder / CLEAN_SHUTDOWN
        self.was_clean = self._mark.exists()
        self._boot_file = folder / BOOT_ID
        self._boot_id = _read(_KERNELS_BOOT_ID)
        is_same_boot = self._boot_id is not None and _read(self._boot_file) == self._boot_id
        self.may_have_lost_writes = self._is_in_doubt = not (self.was_clean or is_same_boot)
        self.recovery_points = read_checkpoint(folder / RECOVERY_POINTS)
        self.log_start_offsets = read_checkpoint(folder / LOG_START_OFFSETS)

    def opened(self) -> None:
        """From here on a crash means recovery."""
        if not self.may_have_lost_writes:
            self.keep_boot()
        if self.was_clean:
            remove_if_there(str(self._mark))
            sync_path(str(self._folder))

    def save(self, logs: Collection[PartitionLog]) -> None:
        self._write(RECOVERY_POINTS, {(log.topic, log.partition): log.recovery_point for log in logs})
        self._write(
            LOG_START_OFFSETS,
            {(log.topic, log.partition): log.log_start_offset for log in logs if log.log_start_offset},
        )

    def _write(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        known = self.recovery_points if name == RECOVERY_POINTS else self.log_start_offsets
        if offsets != known or not os.path.exists(self._folder / name):
            write_checkpoint(self._folder / name, offsets)
            known.clear()
            known.update(offsets)

    def keep_boot(self) -> None:
        """All that had to follow from lost writes has been done: from here on a killed broker loses nothing."""
        self._is_in_doubt = False
        if self._boot_id is not None and _read(self._boot_file) != self._boot_id:
            write_file(str(self._boot_file), self._boot_id, sync=True)

    def forget_boot(self) -> None:
        """The disk has failed: what the page cache shows after a restart need not be what was written."""
        with contextlib.suppress(OSError):
            remove_if_there(str(self._boot_file))

    def mark_clean(self) -> None:
        if self._is_in_doubt:
            return  # stopped before all has followed from lost writes: the next start has to know
        write_file(str(self._mark), b'{"version":0}', sync=True)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().strip()
    except OSError:
        return None
