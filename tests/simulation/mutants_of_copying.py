"""Mutants of exactly-once copying, of migrating groups, and of what the first lists left out."""

from __future__ import annotations

from penstock.broker.world import SteadyTime
from penstock.client.commits import Commits
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer import migration
from penstock.groups.offset_store import OffsetStore
from penstock.groups.offsets import Offsets
from penstock.log import producer_state
from penstock.log.producer_state import ProducerState
from tests.simulation.copying import Copying
from tests.simulation.faults import Fault
from tests.simulation.groups import ClockJumps, Migration
from tests.simulation.mutant import Mutant
from tests.simulation.streams import Transactions
from tests.simulation.zombies import Zombies

PAUSES = tuple(Fault(at_ms, "pause-client", 900, 0) for at_ms in (400, 900, 1400, 1900))
"""Copiers are expelled, one after the other, and return."""
OFTEN = tuple(Fault(at_ms, "pause-client", 900, 0) for at_ms in range(300, 2700, 200))
"""The same all the time, so that partitions change hands while transactions are being ended."""

COPYING = [
    Mutant(
        "aborted-offsets-count",
        "offsets that were committed in an aborted transaction take effect",
        Copying,
        OffsetStore,
        "end_transaction",
        "if commit and (",
        "if (",
    ),
    Mutant(
        "offsets-before-the-marker",
        "offsets that are committed in a transaction take effect at once",
        Copying,
        OffsetStore,
        "put",
        "if producer_id is None:",
        "if True:",
    ),
    Mutant(
        "generation-not-checked",
        "a member that was expelled commits offsets in a transaction",
        Copying,
        ClassicGroup,
        "validate_offset_commit",
        "",
        "",
        plan=PAUSES,
    ),
    Mutant(
        "commits-as-nobody",
        "our own consumer, expelled since it polled, lets its offsets be committed in nobody's name",
        Copying,
        Commits,
        "identity",
        "return self._polled_as or self._membership().identity()",
        "return self._membership().identity()",
        100,
        plan=PAUSES,
    ),
    Mutant(
        "unstable-offsets-fetched",
        "offsets that a transaction is about to replace are handed out",
        Copying,
        Offsets,
        "fetch",
        "unstable = require_stable and self._state.offsets.is_pending(request.group_id, name, index)",
        "unstable = False",
        first_seed=12,
        plan=OFTEN,
    ),
]

MIGRATION = [
    Mutant(
        "upgrade-forgets-what-is-held",
        "a group that becomes a consumer group forgets what its members hold",
        Migration,
        migration,
        "_upgraded_member",
        "assigned=with_epoch(target, group.generation),",
        "assigned=with_epoch({}, group.generation),",
    ),
    Mutant(
        "downgrade-gives-everything-to-all",
        "in a group that becomes a classic one every member is assigned what the first one has",
        Migration,
        migration,
        "downgrade",
        "targets[classic_member.member_id], version",
        "next(iter(targets.values())), version",
    ),
]

CLOSED = [
    Mutant(
        "stale-epoch-accepted",
        "a partition takes a batch of an earlier epoch of its producer",
        Zombies,
        producer_state,
        "_check_data",
        "if entry is not None and header.producer_epoch < entry.producer_epoch:",
        "if False:",
    ),
    Mutant(
        "stable-offset-stays",
        "the last stable offset stays at the first transaction",
        Transactions,
        ProducerState,
        "apply_marker",
        "self._ongoing.pop(first_offset, None)",
        "pass",
    ),
    Mutant(
        "sessions-by-the-wall-clock",
        "sessions of members follow a clock that is set",
        ClockJumps,
        SteadyTime,
        "now_ms",
        "return self._ahead_ms + int(self._world.monotonic() * 1000)",
        "return self._world.now_ms()",
        100,
    ),
]
