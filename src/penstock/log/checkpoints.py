"""Kafka's checkpoint files of a data folder: one offset per partition.

`recovery-point-offset-checkpoint` (everything below is on disk for sure), `log-start-offset-checkpoint` and
`cleaner-offset-checkpoint` share one text format: a line with version 0, a line with the number of entries, then
"topic partition offset" lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.log.errors import StorageError
from penstock.log.files import write_file

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

TopicPartition = tuple[str, int]


def read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file. A missing or senseless file is empty: each of them only saves work."""
    offsets: dict[TopicPartition, int] = {}
    try:
        lines = path.read_text("utf-8").split("\n")
        if lines[0].strip() != "0":
            return {}
        for line in lines[2 : 2 + int(lines[1])]:
            topic, partition, offset = line.split()
            offsets[topic, int(partition)] = int(offset)
    except (FileNotFoundError, UnicodeDecodeError, ValueError, IndexError):
        return {}
    return offsets


def write_checkpoint(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    try:
        write_file(str(path), ("\n".join(lines) + "\n").encode(), sync=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
