"""What the broker asks of the cleaner process, and what it gets back. Both travel as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(slots=True, kw_only=True)
class CleanJob:
    """One round of cleaning of one log."""

    folder: str
    segments: list[tuple[int, int]]
    """(base offset, size) of the segments that may be cleaned, oldest first."""
    txn_index_segments: list[int]
    """Base offsets of all segments with aborted transactions; one may be aborted by a marker behind the round."""
    first_dirty_offset: int
    upper_bound_offset: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    now_ms: int
    dedupe_buffer_bytes: int
    io_max_bytes_per_second: float
    producers: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, offset of its last record or -1, epoch) of the active producers."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CleanJob:
        values = json.loads(text)
        for name in ("segments", "producers"):
            values[name] = [tuple(each) for each in values[name]]
        return cls(**values)


@dataclass(slots=True, kw_only=True)
class CleanedGroup:
    """Some adjacent segments have been cleaned into one, which waits under the suffix `.cleaned`."""

    base_offsets: list[int]
    size: int


@dataclass(slots=True, kw_only=True)
class CleanedRound:
    """The round is over: everything below `end_offset` is clean."""

    end_offset: int
    bytes_read: int
    bytes_written: int
    keys: int


@dataclass(slots=True, kw_only=True)
class FailedRound:
    """`corrupt` says that the log itself is broken, so that trying again is of no use."""

    message: str
    corrupt: bool


Outcome = CleanedGroup | CleanedRound | FailedRound
_KINDS: dict[str, type[CleanedGroup] | type[CleanedRound] | type[FailedRound]] = {
    "group": CleanedGroup,
    "round": CleanedRound,
    "failed": FailedRound,
}


def outcome_to_json(outcome: Outcome) -> str:
    kind = next(name for name, cls in _KINDS.items() if isinstance(outcome, cls))
    return json.dumps({"kind": kind, **asdict(outcome)})


def outcome_from_json(text: str) -> Outcome:
    values = json.loads(text)
    return _KINDS[values.pop("kind")](**values)
