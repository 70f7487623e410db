"""Moves the logs of a data folder, with all that is remembered of them, into another folder of the same file system.

A folder is renamed, never copied. What has been moved stays moved, so an interrupted move is finished by the next one.
"""

from __future__ import annotations

import os
from pathlib import Path

from penstock.log.checkpoints import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS
from penstock.log.errors import StorageError
from penstock.log.files import sync_path, write_file
from penstock.storage.checkpoint import BOOT_ID, CLEAN_SHUTDOWN, LEADER_EPOCH, LOG_ENDS

_REMEMBERED = (RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS, LOG_ENDS, LEADER_EPOCH, BOOT_ID, CLEAN_SHUTDOWN)


def move_logs(source: Path, target: Path) -> int:
    """Move all logs, on which nobody works. Returns how many there were."""
    logs = [entry.name for entry in os.scandir(source) if entry.is_dir() and _is_log(entry.name)]
    remembered = [name for name in _REMEMBERED if (source / name).exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in (*logs, *remembered):
            (source / name).rename(target / name)
        if logs or remembered:
            sync_path(str(target))
            sync_path(str(source))
    except OSError as error:
        raise StorageError(f"cannot move the logs of {source} to {target}: {error.strerror}") from error
    return len(logs)


def mark_new(folder: Path) -> None:
    """Say of an empty folder that it was left cleanly: nothing can have been lost that was never there."""
    write_file(str(folder / CLEAN_SHUTDOWN), b'{"version":0}', sync=True)


def _is_log(name: str) -> bool:
    """`<topic>-<partition>`, or one of those that are being deleted, or were set aside."""
    topic, dash, index = name.rpartition("-")
    return bool(topic and dash) and (index.isdigit() or index in ("delete", "stray"))
