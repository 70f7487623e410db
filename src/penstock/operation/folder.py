"""A stopped broker's data folder, as far as it has to be known to bring it elsewhere. Nothing in it is changed."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.log.recovery import snapshot_path
from penstock.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_stem
from penstock.storage.checkpoint import CLEAN_SHUTDOWN, LEADER_EPOCH
from penstock.storage.objects.inspection import damage

_CHUNK_BYTES = 4 << 20
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    stem: str
    base_offset: int
    end_offset: int
    log_size: int
    modified_ns: int
    sizes: tuple[int, int, int, int]
    """Of index, time index, transaction index and producer snapshot; 0 where there is none."""

    @property
    def size(self) -> int:
        return self.log_size + sum(self.sizes)

    def check(self) -> None:
        """Raises StorageError if the batches are not what was once written."""
        text = file_damage(self.stem + LOG_SUFFIX, self.base_offset, self.end_offset)
        if text is not None:
            raise StorageError(f"{self.stem}{LOG_SUFFIX} is damaged: {text}")

    def parts(self) -> Iterator[bytes]:
        """The bytes of all files, one after the other."""
        paths = [self.stem + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
        paths.append(snapshot_path(os.path.dirname(self.stem), self.end_offset))
        for path, size in zip(paths, (self.log_size, *self.sizes), strict=True):
            if not size:
                continue
            left = size
            with open(path, "rb") as file:
                while left:
                    data = file.read(min(left, _CHUNK_BYTES))
                    if not data:
                        raise StorageError(f"{path} has become shorter while it was read")
                    left -= len(data)
                    yield data

    def timestamps(self) -> tuple[int, int, int]:
        """Of the first batch, the largest, and the offset of that."""
        folder = os.path.dirname(self.stem)
        segment = Segment(
            folder,
            self.base_offset,
            self.log_size,
            OpenFiles(),
            created_ms=0,
            index_interval_bytes=4096,
            has_txn_index=bool(self.sizes[2]),
        )
        try:
            segment.load_timestamps()
            return segment.first_batch_timestamp(), segment.max_timestamp, segment.max_timestamp_offset
        finally:
            segment.release()


@dataclass(slots=True)
class PartitionFiles:
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    epochs: list[tuple[int, int]] = field(default_factory=list)
    segments: list[SegmentFiles] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.segments)


class StoppedFolder:
    """Raises StorageError unless its broker was stopped properly: then all files are whole."""

    def __init__(self, data: Path, broker: str | None = None) -> None:
        """`broker` names it in an error."""
        self._data = data
        if not (data / CLEAN_SHUTDOWN).exists():
            raise StorageError(
                f"{broker or f'the broker on {data}'} was killed: start it once more and stop it with Ctrl-C or "
                "SIGTERM, so that its files are checked and whole"
            )
        self._ends = read_checkpoint(data / RECOVERY_POINTS)
        self._starts = read_checkpoint(data / LOG_START_OFFSETS)
        try:
            self._leader_epoch = int((data / LEADER_EPOCH).read_text())
        except (OSError, ValueError):
            self._leader_epoch = 0

    def partition(self, topic: str, index: int) -> PartitionFiles:
        folder = self._data / f"{topic}-{index}"
        try:
            names = {entry.name: entry.stat() for entry in os.scandir(folder)}
        except FileNotFoundError:
            raise StorageError(f"{folder} is missing: start the broker once more, and stop it") from None
        epochs = LeaderEpochs(str(folder / LEADER_EPOCHS_FILE))
        start = self._starts.get((topic, index), 0)
        end = self._ends.get((topic, index), 0)
        bases = sorted(int(name[:_DIGITS]) for name in names if _is_log(name))
        found = PartitionFiles(
            max(start, bases[0] if bases else 0),
            max(end, start),
            max(self._leader_epoch, epochs.latest, 0),
            epochs.entries,
        )
        for base, segment_end in zip(bases, [*bases[1:], found.end_offset], strict=True):
            stem = file_stem(str(folder), base)
            log = names[os.path.basename(stem + LOG_SUFFIX)]
            if not log.st_size:
                continue
            snapshot = snapshot_path(str(folder), segment_end)
            paths = [*(stem + suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)), snapshot]
            sizes = [names[name].st_size if (name := os.path.basename(path)) in names else 0 for path in paths]
            found.segments.append(
                SegmentFiles(
                    stem, base, segment_end, log.st_size, log.st_mtime_ns, (sizes[0], sizes[1], sizes[2], sizes[3])
                )
            )
        if found.segments and not found.segments[-1].sizes[3]:
            raise StorageError(f"{folder} has no producer snapshot at its end: start the broker once more, and stop it")
        return found


def file_damage(path: str, base_offset: int, end_offset: int) -> str | None:
    """What is wrong with the batches of a segment file that is not empty."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        return damage(view, base_offset, end_offset, is_dense=False)


def _is_log(name: str) -> bool:
    return name[:_DIGITS].isdigit() and name[_DIGITS:] == LOG_SUFFIX
