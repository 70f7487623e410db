"""Reads the metadata log of a KRaft cluster from its folder: the newest snapshot, then the log from where it ends.

A snapshot (`<end offset>-<epoch>.checkpoint`) and a segment of the log (`<base offset>.log`) are record batches like
any other. What is behind the last whole batch was never committed by a controller that stopped, and does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.adoption.image import MetadataImage
from penstock.records.batch import CorruptBatch, crc_is_valid, iter_headers
from penstock.records.control import ControlType, parse_control
from penstock.records.record import decode_records

METADATA_FOLDER = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_QUORUM = (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)
_SEGMENT = re.compile(r"(\d{20})\.log")


class UnreadableMetadata(Exception):
    """The folder holds no metadata log that can be read; the message says what is wrong with it."""


def read_image(folder: Path) -> MetadataImage:
    """What the cluster's metadata was when it stopped."""
    image = MetadataImage()
    snapshots = _matching(folder, _SNAPSHOT)
    segments = _matching(folder, _SEGMENT)
    if not snapshots and not segments:
        raise UnreadableMetadata(f"{folder} holds neither snapshots nor segments of a metadata log")
    position = 0
    if snapshots:
        position, path = snapshots[-1]
        _apply(image, path, 0, is_snapshot=True)
    if segments and segments[0][0] > position:
        raise UnreadableMetadata(
            f"the metadata log in {folder} begins at offset {segments[0][0]}, and its newest snapshot ends at "
            f"{position}"
        )
    for _, path in segments:
        _apply(image, path, position, is_snapshot=False)
    return image


@dataclass(frozen=True, slots=True)
class MetadataEnd:
    """Where the metadata log ends, and what it says of the quorum that writes it."""

    offset: int
    epoch: int
    quorum: list[tuple[bytes, bytes]]
    """The control records with the version of KRaft and the voters (KIP-853); none where the voters are configured."""


def read_end(folder: Path) -> MetadataEnd:
    """Look at the batches of the newest snapshot and of the log, without their contents."""
    quorum: dict[bytes, bytes] = {}
    offset = epoch = 0
    snapshots = _matching(folder, _SNAPSHOT)
    paths = [path for _, path in (*snapshots[-1:], *_matching(folder, _SEGMENT))]
    if snapshots:
        offset = snapshots[-1][0]
        epoch = int(snapshots[-1][1].stem.partition("-")[2])
    for path in paths:
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if path.suffix == ".log":
                offset = max(offset, header.last_offset + 1)
                epoch = max(epoch, header.partition_leader_epoch)
            if header.is_control:
                for record in decode_records(data, position, header):
                    if record.key is not None and record.value is not None and parse_control(record).kind in _QUORUM:
                        quorum[record.key] = record.value
    return MetadataEnd(offset, epoch, sorted(quorum.items()))


def _matching(folder: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
    found = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [(int(match[1]), path) for match, path in found if match]


def _apply(image: MetadataImage, path: Path, from_offset: int, *, is_snapshot: bool) -> None:
    data = path.read_bytes()
    end = 0
    try:
        for position, header in iter_headers(data):
            size = header.size
            if not crc_is_valid(data, position, size):
                raise CorruptBatch(f"the checksum of the batch at {header.base_offset} is wrong")
            end = position + size
            if header.is_control or header.last_offset < from_offset:
                continue
            for record in decode_records(data, position, header):
                if record.offset >= from_offset and record.value is not None:
                    image.apply(record.value)
    except CorruptBatch as error:
        if is_snapshot:
            raise UnreadableMetadata(f"the snapshot {path} is damaged: {error}") from error
    if is_snapshot and end != len(data):
        raise UnreadableMetadata(f"the snapshot {path} is cut off")
