"""One byte per offset: a record's state and how often it was delivered.

A window is a `bytearray` with one *cell* per offset: the low three bits are the record's state, the high five its
delivery count. Packed like this, every step of the life of a range of records is one C-level operation on a slice: a
step is a 256-byte table for `bytes.translate`, a question ("are all of these acquired?") deletes the cells of a class
and looks whether anything is left.

States and the steps between them (KIP-932; ARCHIVING is KIP-1191's):

=============  =========  ==============================================================================
state          persisted  steps that leave it
=============  =========  ==============================================================================
AVAILABLE 0    yes        acquire: ACQUIRED with one more delivery
ACQUIRED 1     never      accept: ACKNOWLEDGED; reject, gap: ARCHIVED; release, expiry: AVAILABLE, or
                          ARCHIVED at the delivery limit; each of them passes through STAGED
ACKNOWLEDGED 2 yes        none, terminal
ARCHIVING 3    yes        ARCHIVED, when its dead letter is written
ARCHIVED 4     yes        none, terminal
STAGED 5       never      what was asked for (commit) or ACQUIRED again (rollback), once the write has ended
DELAYED 6      as 0       AVAILABLE, when its time has come
=============  =========  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import lru_cache
from itertools import groupby

MAX_DELIVERY_COUNT = 31
_STATE_BITS = 3
STATE_MASK = (1 << _STATE_BITS) - 1


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4
    STAGED = 5
    DELAYED = 6


STATE_NAMES = tuple(state.name for state in RecordState)
"""By number: the lookup of an enum's member costs more than the rest of a row that somebody looks at."""


def cell(state: RecordState, delivery_count: int) -> int:
    return min(delivery_count, MAX_DELIVERY_COUNT) << _STATE_BITS | state


def state_of(value: int) -> RecordState:
    return RecordState(value & STATE_MASK)


def count_of(value: int) -> int:
    return value >> _STATE_BITS


def cells_in(*states: RecordState) -> bytes:
    return bytes(cell(state, count) for state in states for count in range(MAX_DELIVERY_COUNT + 1))


AVAILABLE_CELLS = cells_in(RecordState.AVAILABLE)
ACQUIRED_CELLS = cells_in(RecordState.ACQUIRED)
TERMINAL_CELLS = cells_in(RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

FRESH = cell(RecordState.AVAILABLE, 0)
"""A record that was never delivered."""
ABSENT = cell(RecordState.ARCHIVED, 0)
"""An offset without a record to deliver: compacted away, or part of an aborted transaction."""


def _table(step: Callable[[RecordState, int], int | None]) -> bytes:
    table = bytearray(range(256))
    for state in RecordState:
        for count in range(MAX_DELIVERY_COUNT + 1):
            target = step(state, count)
            if target is not None:
                table[cell(state, count)] = target
    return bytes(table)


def _moves(source: RecordState, target: RecordState) -> bytes:
    return _table(lambda state, count: cell(target, count) if state is source else None)


ACQUIRE = _table(lambda state, count: cell(RecordState.ACQUIRED, count + 1) if state is RecordState.AVAILABLE else None)
STAGE = _table(lambda _, count: cell(RecordState.STAGED, count))
ACCEPT = _moves(RecordState.ACQUIRED, RecordState.ACKNOWLEDGED)
ARCHIVE = _moves(RecordState.ACQUIRED, RecordState.ARCHIVED)
BEGIN_ARCHIVING = _moves(RecordState.ACQUIRED, RecordState.ARCHIVING)
FINISH_ARCHIVING = _moves(RecordState.ARCHIVING, RecordState.ARCHIVED)
BECOME_AVAILABLE = _moves(RecordState.DELAYED, RecordState.AVAILABLE)
FORGET_UNDELIVERED = _table(
    lambda state, count: (
        cell(RecordState.ARCHIVED, count) if state in (RecordState.AVAILABLE, RecordState.DELAYED) else None
    )
)
"""What the log no longer has cannot be delivered; what a member holds is its business until it answers."""
PERSISTED = _moves(RecordState.DELAYED, RecordState.AVAILABLE)
STORED = _table(
    lambda state, count: (
        cell(RecordState.AVAILABLE, count - 1)
        if state in (RecordState.ACQUIRED, RecordState.STAGED) and count
        else cell(RecordState.AVAILABLE, count)
        if state is RecordState.DELAYED
        else None
    )
)
"""What the share coordinator is to know of a record: it is told of a delivery when somebody has answered for it."""


@lru_cache(maxsize=256)
def release_table(delivery_count_limit: int, *, dead_letters: bool, delayed: bool) -> bytes:
    """ACQUIRED gives up its lock: available again, or archived when it was delivered as often as it may be."""
    again = RecordState.DELAYED if delayed else RecordState.AVAILABLE
    exhausted = RecordState.ARCHIVING if dead_letters else RecordState.ARCHIVED
    return _table(
        lambda state, count: (
            cell(again if count < delivery_count_limit else exhausted, count) if state is RecordState.ACQUIRED else None
        )
    )


@lru_cache(maxsize=256)
def exhaust_table(delivery_count_limit: int, *, dead_letters: bool) -> bytes:
    """Available records that a lowered limit leaves without another delivery."""
    exhausted = RecordState.ARCHIVING if dead_letters else RecordState.ARCHIVED
    return _table(
        lambda state, count: (
            cell(exhausted, count)
            if state in (RecordState.AVAILABLE, RecordState.DELAYED) and count >= delivery_count_limit
            else None
        )
    )


def only(cells: bytes | bytearray, allowed: bytes) -> bool:
    return not cells.translate(None, allowed)


def number_in(cells: bytes | bytearray, members: bytes) -> int:
    return len(cells) - len(cells.translate(None, members))


def _one_of(cells: bytes) -> bytes:
    return b"[" + b"".join(re.escape(bytes((value,))) for value in cells) + b"]"


_ONE_AVAILABLE = re.compile(_one_of(AVAILABLE_CELLS), re.DOTALL)
TERMINAL_PREFIX = re.compile(_one_of(TERMINAL_CELLS) + b"*", re.DOTALL)


def find_available(cells: bytearray, start: int, stop: int) -> int:
    """The index of the first available cell, -1 if there is none."""
    match = _ONE_AVAILABLE.search(cells, start, stop)
    return -1 if match is None else match.start()


def run_length(cells: bytearray, start: int, stop: int) -> int:
    """How many cells from the start on are equal to the first."""
    part = cells[start:stop]
    return len(part) - len(part.lstrip(part[:1]))


def runs(cells: bytes | bytearray) -> Iterator[tuple[int, int, int]]:
    """Runs of equal cells as (first index, index past the last, the cell)."""
    if cells and cells.count(cells[0]) == len(cells):
        yield 0, len(cells), cells[0]
        return
    first = 0
    for value, group in groupby(cells):
        past = first + sum(1 for _ in group)
        yield first, past, value
        first = past


def terminal_prefix(cells: bytes | bytearray) -> int:
    match = TERMINAL_PREFIX.match(cells)
    assert match is not None
    return match.end()
