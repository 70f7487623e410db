"""One moment of all logs of a running broker, for a backup.

The event loop's thread notes what each log holds (`Moment`), which takes about a microsecond for each, and goes on.
What was appended by then stays where it is: batches are never changed, they are only removed, with the file that they
are in. So a thread has the time to give each file a second name in another folder (`Moment.link`); until it has, the
storage removes and replaces nothing. After that the broker may do what it likes: the files are there, under their
second names, until the backup has been copied from them.

The moment is what a killed broker would have left. Neither the active segment's indexes nor its producers' states are
part of it, because a start makes them from the batches.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint
from penstock.log.errors import StorageError
from penstock.log.folder import owner_of
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition import LEADER_EPOCHS_FILE, PartitionLog
from penstock.log.recovery import SNAPSHOT_SUFFIX
from penstock.log.segment import LOG_SUFFIX, SUFFIXES, Segment
from penstock.storage.checkpoint import LEADER_EPOCH, read_number

BACKUP_FOLDER = ".penstock_backup"
"""In a data folder, while a backup of it is made."""
LOCK_FILE = "lock"
"""Held by the command that makes the backup."""
REQUEST_FILE = "request"
"""In which the command requests a moment, under a name that it makes up."""
MOMENT_FOLDER = "moment"
MOMENT_FILE = "moment.json"
"""Written last: what the moment is, or why there is none."""
CATALOG_COPY = "catalog"
LOGS_FOLDER = "logs"

_DIGITS = 20
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LogState:
    """A log at one moment, and its files with as much of each as belongs to that moment."""

    topic: str
    partition: int
    topic_id: str
    """In hexadecimal digits."""
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epoch: int
    epochs: list[tuple[int, int]]
    files: dict[str, int] = field(default_factory=dict)
    """Names with sizes in bytes."""

    @property
    def folder(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> LogState:
        found["epochs"] = [(int(epoch), int(start)) for epoch, start in found["epochs"]]
        return cls(**found)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class _Noted(NamedTuple):
    log: PartitionLog
    segments: list[Segment]
    active_size: int
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epoch: int
    epochs: list[tuple[int, int]]


def _note(log: PartitionLog) -> _Noted:
    segments = log.segments.copy()
    return _Noted(
        log,
        segments,
        segments[-1].size,
        log.log_start_offset,
        log.log_end_offset,
        log.recovery_start,
        log.leader_epoch,
        log.epochs.entries,
    )


class Moment:
    """Made in the event loop's thread; `link` is for another one."""

    def __init__(self, leader_epoch: int, logs: Iterable[PartitionLog]) -> None:
        self.leader_epoch = leader_epoch
        collects = gc.isenabled()
        gc.disable()  # many small objects at once would have it look through everything there is, more than once
        try:
            self._noted = [_note(log) for log in logs]
        finally:
            if collects:
                gc.enable()
        self._moved: dict[int, Path] = {}

    def moved(self, log: PartitionLog, folder: Path) -> None:
        """The log has been deleted since, and its folder has another name."""
        self._moved[id(log)] = folder

    def link(self, target: Path, may_go_on: Callable[[], bool]) -> list[LogState]:
        """Give the files of all logs a second name, `<log>/<file>` with a dash for the slash, in a folder on the same
        file system. Files of no size are only named in what is returned."""
        target.mkdir(parents=True)
        states = []
        for noted in self._noted:
            if not may_go_on():
                raise StorageError("giving the files a second name took too long: see whether the disk is overloaded")
            states.append(self._link_log(noted, target))
        return states

    def _link_log(self, noted: _Noted, target: Path) -> LogState:
        log = noted.log
        for attempt in range(1, _ATTEMPTS + 1):
            folder = self._moved.get(id(log), log.folder)
            state = self._state(noted)
            try:
                _link_files(folder, target, noted, state)
                return state
            except FileNotFoundError as error:  # the folder was renamed, because the topic was deleted this instant
                if attempt == _ATTEMPTS:
                    raise StorageError(f"cannot back up {folder}: {error.filename} is gone") from error
                time.sleep(_PAUSE_SECONDS)
            except OSError as error:
                raise StorageError(
                    f"cannot give the files of {folder} a second name ({error.strerror}); without hard links only a "
                    "stopped broker can be backed up"
                ) from error
        raise AssertionError("the last attempt returns or raises")

    @staticmethod
    def _state(noted: _Noted) -> LogState:
        log = noted.log
        return LogState(
            log.topic,
            log.partition,
            log.topic_id.hex(),
            noted.log_start_offset,
            noted.log_end_offset,
            noted.recovery_point,
            noted.leader_epoch,
            noted.epochs,
        )


def _link_files(folder: Path, target: Path, noted: _Noted, state: LogState) -> None:
    *sealed, active = noted.segments
    sizes = {segment.base_offset: segment.size for segment in sealed}
    files = state.files
    files |= {f"{base:020d}{LOG_SUFFIX}": size for base, size in sizes.items()}
    files[f"{active.base_offset:020d}{LOG_SUFFIX}"] = noted.active_size
    for name, size in files.items():
        if size:
            _link(folder / name, linked_path(target, state.folder, name))
    if not sealed and not active.base_offset:
        return  # whatever else there is can be made from the one segment
    for entry in list(os.scandir(folder)):
        if not _is_beside(entry.name, sizes, noted.log_end_offset):
            continue
        path = linked_path(target, state.folder, entry.name)
        try:
            _link(folder / entry.name, path)
        except FileNotFoundError:
            if not entry.name.endswith(SNAPSHOT_SUFFIX):
                raise
            continue  # retention has dropped it: without it a start reads more
        files[entry.name] = os.stat(path).st_size


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:  # by an attempt before this one
        os.unlink(target)
        os.link(source, target)


def linked_path(target: Path, folder: str, name: str) -> Path:
    """The second name of a file: all are in one folder, because it would take longer to make many."""
    return target / f"{folder}-{name}"


def _is_beside(name: str, sealed: dict[int, int], end_offset: int) -> bool:
    """Whether a file is an index of a segment that is complete, or a producer snapshot that may be of use."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    if not digits.isdigit() or len(digits) != _DIGITS:
        return False
    if suffix == SNAPSHOT_SUFFIX:
        return int(digits) <= end_offset
    return suffix in SUFFIXES and suffix != LOG_SUFFIX and int(digits) in sealed


def stopped_moment(folder: Path) -> tuple[int, list[LogState]]:
    """The highest leader epoch and all logs of a folder on which no broker runs, whether it was stopped or killed."""
    points = read_checkpoint(folder / RECOVERY_POINTS)
    starts = read_checkpoint(folder / LOG_START_OFFSETS)
    states = []
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        topic, dash, index = entry.name.rpartition("-")
        if not (topic and dash and index.isdigit() and entry.is_dir()):
            continue
        topic_id = owner_of(Path(entry.path))
        if topic_id is None:  # a crash left half a folder: nobody was promised anything that is in it
            continue
        epochs = LeaderEpochs(str(Path(entry.path) / LEADER_EPOCHS_FILE))
        files = {each.name: each.stat().st_size for each in os.scandir(entry.path) if _is_of_a_log(each.name)}
        key = (topic, int(index))
        states.append(
            LogState(
                topic,
                int(index),
                topic_id.hex(),
                starts.get(key, 0),
                -1,
                points.get(key, 0),
                max(epochs.latest, 0),
                epochs.entries,
                files,
            )
        )
    return read_number(folder / LEADER_EPOCH), states


def _is_of_a_log(name: str) -> bool:
    """Not what a crash left half done: a swap that was decided is finished by whoever opens the log."""
    return name[:_DIGITS].isdigit() and not name.endswith((".deleted", ".tmp"))
