"""The values that travel between a share-partition and its shell."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(NamedTuple):
    """One type for the whole range, or exactly one per offset."""

    first_offset: int
    last_offset: int
    types: bytes


class AcquiredRange(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Unreadable(NamedTuple):
    """The offsets of a stored batch that nobody can open, and why."""

    first_offset: int
    last_offset: int
    reason: str


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(slots=True)
class StateWrite:
    """What the share coordinator is asked to remember."""

    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch] = field(default_factory=list)


class DeadLetterCause(Enum):
    REJECTED = "Offset rejected by client."
    EXHAUSTED = "Offset delivery count exceeded the threshold."
    UNREADABLE = "Offset lies in a record batch that cannot be read."


class DeadLetterRange(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int
    cause: DeadLetterCause


class Change(NamedTuple):
    """The cells of a range before and after."""

    first_offset: int
    before: bytes
    after: bytes

    @property
    def last_offset(self) -> int:
        return self.first_offset + len(self.after) - 1


@dataclass(slots=True)
class Transition:
    """A change of records that is staged until its write has ended, then committed or rolled back."""

    changes: list[Change]
    write: StateWrite
    member_id: str = ""
    renewals: list[tuple[int, int]] = field(default_factory=list)
    dead_letters: list[DeadLetterRange] = field(default_factory=list)

    @property
    def needs_write(self) -> bool:
        return bool(self.changes)


class RecordsView(NamedTuple):
    """Neighbouring records of a window that are alike, for people who look."""

    offset: int
    number: int
    state: str
    delivery_count: int
    member_id: str
    remaining_ms: int
