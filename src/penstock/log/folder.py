"""The folder of a partition's log: whose it is, and what it is called when it is out of use."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from penstock.log.files import write_file

PARTITION_METADATA_FILE = "partition.metadata"
DELETED_FOLDER_SUFFIX = "-delete"
STRAY_FOLDER_SUFFIX = "-stray"
_OWNER = re.compile(rb"^topic_id: ([A-Za-z0-9_-]{22})$", re.MULTILINE)


def owner_of(folder: Path) -> bytes | None:
    """The id of the topic whose folder it is; None if it does not say."""
    try:
        found = _OWNER.search((folder / PARTITION_METADATA_FILE).read_bytes())
    except OSError:
        return None
    return urlsafe_b64decode(found[1] + b"==") if found is not None else None


def claim_folder(folder: Path, topic_id: bytes) -> tuple[bool, bool]:
    """Make the folder a topic's. One of an earlier topic of the same name is put aside.

    Whose it is, is on disk when the first record of the log is (`PartitionLog.sync`). A power cut before that may have
    left half a name, or none: then there is nothing in the folder that anybody was promised.

    Returns whether it may hold records of this topic, and whether its owner was written down just now.
    """
    metadata = folder / PARTITION_METADATA_FILE
    encoded = urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    try:
        owner = _OWNER.search(metadata.read_bytes())
        if owner is not None:
            stored = owner[1].decode()
            if stored == encoded:
                return True, False
            folder.rename(unused_name(folder, stored, STRAY_FOLDER_SUFFIX))
    except FileNotFoundError:
        pass
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    write_file(str(metadata), f"version: 0\ntopic_id: {encoded}\n".encode())
    return existed, True


def unused_name(folder: Path, unique: str, suffix: str) -> Path:
    """A name for a folder that is out of use, as Kafka makes it, cut to what a file system takes."""
    tail = f".{unique}{suffix}"
    return folder.with_name(folder.name[: 255 - len(tail)] + tail)
