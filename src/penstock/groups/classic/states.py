"""The states of a classic group, and which may follow which.

Empty                no members; committed offsets may remain
PreparingRebalance   members are (re)joining; JoinGroup requests are parked until all are there or time is up
CompletingRebalance  everyone has the new generation; SyncGroup requests are parked until the leader's arrives
Stable               every member has its assignment
Dead                 the group was deleted or this coordinator is giving it up
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# state -> the states it may come from
TRANSITIONS: Mapping[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}
