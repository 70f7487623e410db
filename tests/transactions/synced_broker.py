"""A broker that notes how much of each log has come to the disk, so that a test can take the rest away.

    python -m tests.transactions.synced_broker NOTES DATA_FOLDER PORT

NOTES is a file of lines `SIZE PATH`: the last line of a path says what a power cut would leave of it.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from penstock.broker.foundation import Settings
from penstock.broker.run import run
from penstock.log.segment import LOG_SUFFIX, Segment
from penstock.storage.checkpoint import BOOT_ID


def note_syncs(notes: Path) -> None:
    sync = Segment.sync
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def noting(segment: Segment) -> None:
        size = segment.size
        sync(segment)
        os.write(fd, f"{size} {segment.stem}{LOG_SUFFIX}\n".encode())

    Segment.sync = noting  # type: ignore[assignment, method-assign]


def lose_power(folder: Path, notes: Path, chance: random.Random | None = None) -> None:
    """Of each log leave what was synced and, by chance, a part of the rest; the machine has another boot id then."""
    synced = {}
    for line in notes.read_text().splitlines() if notes.exists() else ():
        size, _, path = line.partition(" ")
        synced[path] = int(size)
    for log in folder.glob(f"*/*{LOG_SUFFIX}"):
        kept = synced.get(str(log), 0)
        end = log.stat().st_size
        if kept < end:
            os.truncate(log, chance.randint(kept, end) if chance is not None else kept)
    (folder / BOOT_ID).write_text("before the power cut")


def main() -> None:
    notes, folder, port = sys.argv[1:]
    note_syncs(Path(notes))
    run(Settings(data=Path(folder), listen=[f"127.0.0.1:{port}"]))


if __name__ == "__main__":
    main()
