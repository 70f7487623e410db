"""Compares what the commit log names with what the store holds: nothing missing, damaged or left over, no holes.

Brokers may run meanwhile. A read that fails is judged by the layout as it is afterwards: a segment may have taken the
place of an extent, and retention that of both. The store is listed before the commit log is read, so that an object
which is listed and not known was not committed; while it is young, its commit may still come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.records.batch import LOG_OVERHEAD, Buffer, CorruptBatch, crc_is_valid, iter_headers
from penstock.storage.objects.commit_log import CommitLog, Extent, Layout, PartitionKey, SegmentEntry
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.loading import pages
from penstock.storage.objects.store import ObjectMissing, ObjectStore, StoreError

_PARTITIONS_AT_A_TIME = 200
_READERS = 8
YOUNG_SECONDS = 600.0


class Trouble(Enum):
    MISSING = "missing"
    """An object that the commit log names is not in the store."""
    DAMAGED = "damaged"
    """The bytes are not the batches that were committed."""
    HOLE = "hole"
    """Offsets that are committed and that nothing holds."""
    ORPHAN = "orphan"
    """An object that nothing names, older than any upload that may still be committed."""
    UNREADABLE = "unreadable"
    """The store did not give the bytes; they may be there."""


class Finding(NamedTuple):
    trouble: Trouble
    partition: PartitionKey | None
    object_key: str | None
    text: str


@dataclass(slots=True)
class Inspection:
    partitions: int = 0
    segments: int = 0
    extents: int = 0
    objects: int = 0
    bytes: int = 0
    young: int = 0
    """Objects that nothing names yet and that are too young to be called orphans."""
    marked: int = 0
    """Objects that nothing names any more, whose removal is due."""
    findings: list[Finding] = field(default_factory=list)


class Piece(NamedTuple):
    """What is read at once: a segment, an extent in the store, or several in the commit log."""

    partition: PartitionKey
    entries: Sequence[SegmentEntry] | Sequence[Extent]

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def key(self) -> str | None:
        return self.entries[0].object_key


OnProgress = Callable[[int, int], object]
"""Bytes that were checked, and bytes in all as far as known."""


def inspect(
    commits: CommitLog, store: ObjectStore, keys: KeySpace, on_progress: OnProgress, *, reads: bool = True
) -> Inspection:
    """Raises StorageError when the commit log or the listing of the store cannot be had."""
    result = Inspection()
    listed = {each.key: each for prefix in keys.prefixes for each in store.list(prefix + "/") if keys.owns(each.key)}
    known = commits.known_objects()
    result.objects = len(listed)
    marked = set(commits.marked(0))
    result.marked = len(marked)
    for key, size in known.items():
        if key in listed and listed[key].size != size:
            text = f"has {listed[key].size} bytes rather than {size}"
            result.findings.append(Finding(Trouble.DAMAGED, None, key, text))
    for key, each in listed.items():
        if key in known:
            continue
        if each.age_seconds < YOUNG_SECONDS:
            result.young += 1
        else:
            text = f"{each.size} bytes that nothing names, written {each.age_seconds / 60:.0f} minutes ago"
            result.findings.append(Finding(Trouble.ORPHAN, None, key, text))
    partitions = commits.partitions()
    total = sum(known.values())
    done = 0
    with ThreadPoolExecutor(_READERS, "penstock-check") as pool:
        for at in range(0, len(partitions), _PARTITIONS_AT_A_TIME):
            layouts = commits.layouts(partitions[at : at + _PARTITIONS_AT_A_TIME])
            pieces = list(_pieces(layouts, result))
            wrong = pool.map(lambda piece: _look(piece, commits, store, listed, reads), pieces)
            for piece, findings in zip(pieces, wrong, strict=True):
                result.findings += findings
                result.bytes += piece.size
                done += piece.size
                on_progress(done, max(total, done))
    return result


def _pieces(layouts: Mapping[PartitionKey, Layout], result: Inspection) -> Iterator[Piece]:
    for key, layout in layouts.items():
        result.partitions += 1
        result.segments += len(layout.segments)
        result.extents += len(layout.extents)
        result.findings += [Finding(Trouble.HOLE, key, None, text) for text in holes(layout)]
        for segment in layout.segments:
            yield Piece(key, [segment])
        for page in pages(layout.extents):
            yield Piece(key, page)


def holes(layout: Layout) -> list[str]:
    """Ranges of committed offsets that neither a segment nor an extent holds, and what holds offsets twice."""
    found = []
    state = layout.state
    pieces = [(each.base_offset, each.end_offset, "segment") for each in layout.segments]
    pieces += [(each.base_offset, each.end_offset, "extent") for each in layout.extents]
    next_offset, before = state.log_start_offset, ""
    for base, end, kind in pieces:
        if base > next_offset:
            found.append(f"nothing holds the offsets {next_offset} to {base - 1}")
        elif base < next_offset and before == kind:
            found.append(f"two {kind}s hold the offsets {base} to {next_offset - 1}")
        next_offset, before = max(end, next_offset), kind
    if next_offset < state.end_offset:
        found.append(f"nothing holds the offsets {next_offset} to {state.end_offset - 1}")
    elif next_offset > state.end_offset:
        found.append(f"the log is committed up to {state.end_offset}, and what is stored goes to {next_offset}")
    return found


def _look(
    piece: Piece, commits: CommitLog, store: ObjectStore, listed: Mapping[str, object], reads: bool
) -> list[Finding]:
    wrong: list[tuple[SegmentEntry | Extent, str]] = []
    trouble = Trouble.DAMAGED
    try:
        if reads:
            wrong = _damaged(piece, commits, store)
        elif piece.key is not None and piece.key not in listed:
            store.get(piece.key, 0, 1)  # what is not in the listing may have been written after it
    except ObjectMissing:
        trouble, wrong = Trouble.MISSING, [(piece.entries[0], "is not in the store")]
    except StoreError as error:
        trouble, wrong = Trouble.UNREADABLE, [(piece.entries[0], str(error))]
    if not wrong:
        return []
    layout = commits.layouts([piece.partition]).get(piece.partition)
    return [
        Finding(trouble, piece.partition, piece.key, f"offsets {entry.base_offset} to {entry.end_offset - 1}: {text}")
        for entry, text in wrong
        if layout is not None and (entry in layout.segments or entry in layout.extents)  # it still counts
    ]


def _damaged(piece: Piece, commits: CommitLog, store: ObjectStore) -> list[tuple[SegmentEntry | Extent, str]]:
    """What is wrong with which entry."""
    first = piece.entries[0]
    if isinstance(first, SegmentEntry):
        return [(first, text) for text in [_segment_damage(first, store)] if text is not None]
    extents = [entry for entry in piece.entries if isinstance(entry, Extent)]
    if first.object_key is not None:
        found = {first.base_offset: store.get(first.object_key, first.position, first.size)}
    else:
        found = dict(commits.read_inline(piece.partition, first.base_offset, extents[-1].base_offset))
    return [(extent, text) for extent in extents if (text := _extent_damage(extent, found)) is not None]


def _extent_damage(extent: Extent, found: Mapping[int, bytes]) -> str | None:
    if extent.base_offset not in found:
        return "is not in PostgreSQL"
    return damage(found[extent.base_offset], extent.base_offset, extent.end_offset, is_dense=True)


def _segment_damage(entry: SegmentEntry, store: ObjectStore) -> str | None:
    pieces = store.read(entry.object_key, 0, entry.log_size)
    found = damage_in_pieces(pieces, entry.log_size, entry.base_offset, entry.end_offset, is_dense=False)
    for _ in store.read(entry.object_key, entry.log_size, entry.size - entry.log_size):
        pass  # the indexes can be read
    return found


def damage(data: Buffer, base_offset: int, end_offset: int, *, is_dense: bool) -> str | None:
    """What is wrong with the batches of a range of offsets. Only compaction leaves gaps between batches."""
    return damage_in_pieces([data], len(data), base_offset, end_offset, is_dense=is_dense)


def damage_in_pieces(
    pieces: Iterable[Buffer], size: int, base_offset: int, end_offset: int, *, is_dense: bool
) -> str | None:
    """The same for what is too large for memory."""
    next_offset = base_offset
    left = size
    kept = bytearray()
    """The beginning of a batch that goes on in the next piece."""
    needed = LOG_OVERHEAD
    try:
        for piece in pieces:
            if kept:
                kept += piece
            if kept and len(kept) < needed:
                continue
            data: Buffer = kept or piece
            end = 0
            for position, header in iter_headers(data):
                length = header.batch_length + LOG_OVERHEAD
                if not crc_is_valid(data, position, length):
                    return f"the batch at offset {header.base_offset} has a wrong checksum"
                if header.base_offset < next_offset or (is_dense and header.base_offset > next_offset):
                    return f"a batch begins at offset {header.base_offset}, and {next_offset} was to come"
                next_offset, end = header.base_offset + header.last_offset_delta + 1, position + length
            left -= end
            kept = bytearray(memoryview(data)[end:])
            needed = LOG_OVERHEAD
            if len(kept) >= LOG_OVERHEAD:
                needed = int.from_bytes(kept[8:12], "big", signed=True) + LOG_OVERHEAD
            if needed > left:
                break
    except CorruptBatch as error:
        return f"the batch after offset {next_offset} cannot be read: {error}"
    if left:
        return f"{left} bytes after offset {next_offset - 1} are no batch"
    if next_offset > end_offset or (is_dense and next_offset != end_offset):
        return f"the batches end at offset {next_offset} rather than {end_offset}"
    return None
