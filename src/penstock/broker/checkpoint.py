"""What the data folder remembers between runs: recovery points, log start offsets, and whether it was closed cleanly.

The clean-shutdown mark is written last on a graceful stop and removed first on a start: while it is there, no log needs
to be checked. The checkpoints are refreshed now and then, so that recovery after a crash starts where they say.
"""

from __future__ import annotations

import os
from pathlib import Path

from penstock.broker.topics import Topic
from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint, write_checkpoint
from penstock.log.files import remove_if_there, sync_path, write_file

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = folder / CLEAN_SHUTDOWN
        self.was_clean = self._mark.exists()
        self.recovery_points = read_checkpoint(folder / RECOVERY_POINTS)
        self.log_start_offsets = read_checkpoint(folder / LOG_START_OFFSETS)

    def opened(self) -> None:
        """From here on a crash means recovery."""
        if self.was_clean:
            remove_if_there(str(self._mark))
            sync_path(str(self._folder))

    def save(self, topics: list[Topic]) -> None:
        partitions = [partition for topic in topics for partition in topic.partitions]
        self._write(RECOVERY_POINTS, {(p.topic.name, p.index): p.log.recovery_point for p in partitions})
        self._write(
            LOG_START_OFFSETS,
            {(p.topic.name, p.index): p.log.log_start_offset for p in partitions if p.log.log_start_offset},
        )

    def _write(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        known = self.recovery_points if name == RECOVERY_POINTS else self.log_start_offsets
        if offsets != known or not os.path.exists(self._folder / name):
            write_checkpoint(self._folder / name, offsets)
            known.clear()
            known.update(offsets)

    def mark_clean(self) -> None:
        write_file(str(self._mark), b'{"version":0}', sync=True)
