"""A folder that a command is making into a data folder, and that is not one yet.

A mark in it says so, and which command makes it of what. No broker starts on a folder with a mark; a command that was
killed is repeated, and begins anew.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from penstock.broker.cluster_folder import EMBEDDED_CATALOG
from penstock.log.errors import StorageError
from penstock.log.files import FolderLock, make_data_folder, write_file


def claim_target(data: Path, mark_file: str, source: object) -> FolderLock:
    """Mark the folder as one that is made of `source`, and empty it if an earlier attempt has left something.

    `source` is anything that JSON can express, and that tells one source from another.
    A folder that already has its catalog is whole but for its mark, and is left as it is. Raises StorageError or
    FolderInUse.
    """
    make_data_folder(data, mode=0o700)
    lock = FolderLock(data)
    try:
        names = {entry.name for entry in os.scandir(data)} - {lock.path.name}
        mark = json.dumps(source)
        if names and mark_file not in names:
            raise StorageError(f"{data} is not empty: name a folder that does not exist yet")
        if mark_file in names and (data / mark_file).read_text() != mark:
            raise StorageError(
                f"{data} holds what was left unfinished of another source: name another folder, or remove it"
            )
        if EMBEDDED_CATALOG in names:
            return lock
        write_file(str(data / mark_file), mark.encode(), sync=True)
        for name in names - {mark_file}:
            path = data / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return lock
    except BaseException:
        lock.release()
        raise
