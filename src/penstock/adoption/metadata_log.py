"""Reads the metadata log of a KRaft cluster from its folder: the newest snapshot, then the log from where it ends.

A snapshot (`<end offset>-<epoch>.checkpoint`) and a segment of the log (`<base offset>.log`) are record batches like
any other. The log is never compacted, so offsets follow each other without a gap, and every batch has to be whole. One
exception is allowed: a controller that was killed may have left a torn batch at the very end, which it never counted as
written. Whatever else cannot be read is damage, because a topic that is lost here is a topic whose records nobody would
serve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adoption.image import MetadataImage
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.log.recovery import SNAPSHOT_SUFFIX
from penstock.records.batch import BatchHeader, CorruptBatch, crc_is_valid, parse_header
from penstock.records.control import ControlType, parse_control
from penstock.records.record import decode_records

METADATA_FOLDER = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT = re.compile(r"(\d{20})\.log")
_PRODUCER_SNAPSHOT = re.compile(r"(\d{20})" + re.escape(SNAPSHOT_SUFFIX))
_QUORUM = (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)
# Where a batch may begin: its offset is below 2^48, and its format is 2.
_BATCH_LIKE = re.compile(rb"(?=\x00\x00.{14}\x02)", re.DOTALL)


class UnreadableMetadata(Exception):
    """The folder holds no metadata log that can be relied on; the message says what is wrong with it."""


@dataclass(slots=True)
class MetadataLog:
    """What a metadata log says, and where it ends."""

    image: MetadataImage = field(default_factory=MetadataImage)
    end_offset: int = 0
    epoch: int = 0
    quorum: dict[bytes, bytes] = field(default_factory=dict)
    """The control records with the version of KRaft and the voters (KIP-853); none where the voters are configured."""
    torn_bytes: int = 0
    """How much of an unfinished batch was left out at the end."""


def read_metadata(folder: Path, *, was_stopped_cleanly: bool) -> MetadataLog:
    """Read the whole log. Raises UnreadableMetadata, and what `MetadataImage.apply` raises."""
    log = MetadataLog()
    snapshots = _matching(folder, _SNAPSHOT)
    segments = _matching(folder, _SEGMENT)
    if not snapshots and not segments:
        raise UnreadableMetadata(f"{folder} holds neither snapshots nor segments of a metadata log")
    if snapshots:
        log.end_offset, path = snapshots[-1]
        log.epoch = int(path.stem.partition("-")[2])
        _read_snapshot(log, path)
    if segments and segments[0][0] > log.end_offset:
        raise UnreadableMetadata(
            f"the metadata log in {folder} begins at offset {segments[0][0]}, and its newest snapshot ends at "
            f"{log.end_offset}"
        )
    expected = segments[0][0] if segments else 0
    for base_offset, path in segments:
        if base_offset != expected:
            raise UnreadableMetadata(f"{path} should begin at offset {expected}: a part of the metadata log is missing")
        may_be_torn = not was_stopped_cleanly and path == segments[-1][1]
        expected = _read_segment(log, path, expected, may_be_torn=may_be_torn)
    _check_end(folder, log.end_offset)
    return log


def _read_snapshot(log: MetadataLog, path: Path) -> None:
    data = path.read_bytes()
    for position, header in _batches(log, path, data, may_be_torn=False):
        if header.is_control:
            _note_quorum(log, data, position, header)
        else:
            _apply(log, data, position, header, 0)


def _read_segment(log: MetadataLog, path: Path, expected: int, *, may_be_torn: bool) -> int:
    """Apply what the snapshot does not hold yet. Returns the offset at which the segment ends."""
    data = path.read_bytes()
    known = log.end_offset
    for position, header in _batches(log, path, data, may_be_torn=may_be_torn):
        if header.base_offset != expected:
            raise UnreadableMetadata(
                f"{path} holds offset {header.base_offset} where {expected} should be: a part of it is missing"
            )
        expected = header.next_offset
        log.epoch = max(log.epoch, header.partition_leader_epoch)
        if expected > known:
            if header.is_control:
                _note_quorum(log, data, position, header)
            else:
                _apply(log, data, position, header, known)
        log.end_offset = max(log.end_offset, expected)
    return expected


def _apply(log: MetadataLog, data: bytes, position: int, header: BatchHeader, from_offset: int) -> None:
    for record in decode_records(data, position, header):
        if record.offset >= from_offset and record.value is not None:
            log.image.apply(record.value)


def _note_quorum(log: MetadataLog, data: bytes, position: int, header: BatchHeader) -> None:
    for record in decode_records(data, position, header):
        if record.key is not None and record.value is not None and parse_control(record).kind in _QUORUM:
            log.quorum[record.key] = record.value


def _batches(log: MetadataLog, path: Path, data: bytes, *, may_be_torn: bool) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < len(data):
        try:
            header = parse_header(data, position)
            if not crc_is_valid(data, position, header.size):
                raise CorruptBatch("the batch is cut off, or its checksum is wrong")
        except CorruptBatch as error:
            if may_be_torn and not _has_batch_behind(data, position):
                log.torn_bytes = len(data) - position
                return
            raise UnreadableMetadata(f"{path} is damaged at byte {position}: {error}") from error
        yield position, header
        position += header.size


def _has_batch_behind(data: bytes, position: int) -> bool:
    """Whether a whole batch follows a broken one: then it was not the last that was written."""
    for match in _BATCH_LIKE.finditer(data, position + 1):
        at = match.start()
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if crc_is_valid(data, at, size):
            return True
    return False


def _check_end(folder: Path, end_offset: int) -> None:
    """Other files of the folder say how far the log went at least. A log that ends before was cut off."""
    witnesses = [(path.name, offset) for offset, path in _matching(folder, _PRODUCER_SNAPSHOT)]
    epochs = LeaderEpochs(str(folder / LEADER_EPOCHS_FILE))
    witnesses += [(LEADER_EPOCHS_FILE, start) for _, start in epochs.entries]
    for name, offset in witnesses:
        if offset > end_offset:
            raise UnreadableMetadata(
                f"the metadata log in {folder} ends at offset {end_offset}, and {name} shows that it went up to "
                f"{offset}: its end is missing"
            )


def _matching(folder: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
    found = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [(int(match[1]), path) for match, path in found if match]
