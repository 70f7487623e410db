"""What the data folder remembers between runs: recovery points, log start offsets, and whether it was closed cleanly.

The clean-shutdown mark is written last on a graceful stop and removed first on a start: while it is there, no log needs
to be checked. The checkpoints are refreshed now and then, so that recovery after a crash starts where they say.

So is the note of where each log ends and how large its last segment is: after a crash of the broker alone, a log of the
same size is the same log, and need not be checked. The note is not synced, because it means nothing once the machine
went down.

A broker that is killed loses nothing, because the page cache outlives it. A machine that goes down takes along what was
not on disk. The two are told apart by the kernel's boot id, which the folder keeps: if it is another one now, or none
is known, and the folder was not closed cleanly, writes may have been lost.

Records that are gone may have been read. So that consumers notice (KIP-320), whatever is appended in their place gets a
higher leader epoch than any before: the folder keeps the highest one that was ever begun for this reason.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from penstock import portable
from penstock.log.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_checkpoint,
    write_checkpoint,
)
from penstock.log.errors import StorageError
from penstock.log.files import remove_if_there, sync_path, write_file
from penstock.log.partition import PartitionLog
from penstock.log.results import NotedEnd

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOT_ID = ".penstock_boot"
LOG_ENDS = ".penstock_log_ends"
LEADER_EPOCH = ".penstock_leader_epoch"


class Progress(NamedTuple):
    """How far the logs have come at some time."""

    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    log_ends: bytes


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = folder / CLEAN_SHUTDOWN
        self.was_clean = self._mark.exists()
        self._boot_file = folder / BOOT_ID
        self._boot_id = portable.boot_session()
        kept = _read(self._boot_file)
        is_same_boot = self._boot_id is not None and kept == self._boot_id
        self.disk_may_have_failed = not self.was_clean and kept is None
        """Whether what can be read need not be on disk, although the machine was not started anew."""
        self.may_have_lost_writes = self._is_in_doubt = not (self.was_clean or is_same_boot)
        self.leader_epoch = read_number(folder / LEADER_EPOCH)
        """No log may be led under a lower epoch."""
        self.noted_ends: dict[TopicPartition, NotedEnd] = {}
        self._noted_ends = b""
        if not self.may_have_lost_writes:
            self._noted_ends = _read(folder / LOG_ENDS) or b""
            self.noted_ends = _parse_ends(self._noted_ends)
        self.recovery_points = read_checkpoint(folder / RECOVERY_POINTS)
        self.log_start_offsets = read_checkpoint(folder / LOG_START_OFFSETS)

    def opened(self, logs: Collection[PartitionLog]) -> None:
        """All logs are open. From here on a crash means recovery."""
        self.noted_ends = {}
        self._raise_leader_epochs(logs)
        self.save(logs)
        if not self.may_have_lost_writes:
            self.keep_boot()
        if self.was_clean:
            remove_if_there(str(self._mark))
            sync_path(str(self._folder))

    def _raise_leader_epochs(self, logs: Collection[PartitionLog]) -> None:
        """Begin a new epoch where records may be gone: after a power cut everywhere, since no log shows what it had."""
        cut = [log for log in logs if log.was_cut or self.may_have_lost_writes]
        if not cut:
            return
        self.leader_epoch = 1 + max(self.leader_epoch, *(log.leader_epoch for log in logs))
        self._replace(LEADER_EPOCH, b"%d" % self.leader_epoch, sync=True)
        for log in cut:
            log.leader_epoch = self.leader_epoch

    def knows(self, topic: str, partition: int) -> bool:
        """Whether the checkpoints have an offset of a log of this name."""
        return (topic, partition) in self.recovery_points or (topic, partition) in self.log_start_offsets

    def save(self, logs: Collection[PartitionLog]) -> None:
        self.write(take_stock(logs))

    def write(self, progress: Progress) -> None:
        """Write what has changed. It waits for the disk; only one thread at a time may be in here."""
        self._write(RECOVERY_POINTS, progress.recovery_points)
        self._write(LOG_START_OFFSETS, progress.log_start_offsets)
        if progress.log_ends != self._noted_ends:
            self._replace(LOG_ENDS, progress.log_ends)
            self._noted_ends = progress.log_ends

    def write_starts(self, progress: Progress) -> None:
        """The same of where logs begin alone."""
        self._write(LOG_START_OFFSETS, progress.log_start_offsets)

    def _replace(self, name: str, data: bytes, *, sync: bool = False) -> None:
        try:
            write_file(str(self._folder / name), data, sync=sync)
        except OSError as error:
            raise StorageError(f"cannot write {self._folder / name}: {error.strerror}") from error

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
        sync_path(str(self._folder / LOG_ENDS))
        write_file(str(self._mark), b'{"version":0}', sync=True)


def take_stock(logs: Collection[PartitionLog]) -> Progress:
    return Progress(
        {(log.topic, log.partition): log.recovery_start for log in logs},
        {(log.topic, log.partition): log.log_start_offset for log in logs if log.log_start_offset},
        _ends_bytes(logs),
    )


def _ends_bytes(logs: Collection[PartitionLog]) -> bytes:
    lines = ["0"]
    for log in logs:
        end = log.note_end()
        if end is not None:
            lines.append(f"{log.topic} {log.partition} {end.log_end_offset} {end.base_offset} {end.size}")
    return "\n".join(lines).encode()


def _parse_ends(data: bytes) -> dict[TopicPartition, NotedEnd]:
    """The ends in a file; none if it makes no sense: they only save work."""
    version, *lines = data.decode("ascii", "replace").split("\n")
    if version != "0":
        return {}
    ends = {}
    try:
        for line in lines:
            topic, partition, end_offset, base_offset, size = line.split(" ")
            ends[topic, int(partition)] = NotedEnd(int(end_offset), int(base_offset), int(size))
    except ValueError:
        return {}
    return ends


def read_number(path: Path) -> int:
    data = _read(path)
    return int(data) if data is not None and data.isdigit() else 0


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().strip()
    except OSError:
        return None
