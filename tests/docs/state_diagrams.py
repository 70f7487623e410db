"""`python -m tests.docs.state_diagrams`: writes docs/reference/states.md from the tables of states that the code obeys.

Only what is a table in the code is drawn. An edge is there because a table has it; this module adds words to the edges
of records, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.states import TRANSITIONS, ClassicState
from penstock.queues import cells
from penstock.queues.cells import MAX_DELIVERY_COUNT, RecordState, exhaust_table, release_table
from penstock.transactions.metadata import TransactionMetadata
from penstock.transactions.states import NEXT_STATES, TransactionState

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "states.md"

_LIMIT = 5
_BELOW_LIMIT = range(_LIMIT)
_AT_LIMIT = range(_LIMIT, MAX_DELIVERY_COUNT + 1)
_ANY = range(MAX_DELIVERY_COUNT + 1)

S = TypeVar("S")


class Step(NamedTuple):
    """What happens to a record, the table of cells that says what becomes of it, and for which delivery counts."""

    label: str
    table: bytes
    delivery_counts: range = _ANY


STEPS = [
    Step("acquire", cells.ACQUIRE),
    Step("accept", cells.ACCEPT),
    Step("release, expiry", release_table(_LIMIT, dead_letters=False, delayed=False), _BELOW_LIMIT),
    Step("with back-off", release_table(_LIMIT, dead_letters=False, delayed=True), _BELOW_LIMIT),
    Step("reject or gap", cells.ARCHIVE),
    Step("delivery limit reached", release_table(_LIMIT, dead_letters=False, delayed=False), _AT_LIMIT),
    Step("back-off over", cells.BECOME_AVAILABLE),
    Step("not in the log", cells.FORGET_UNDELIVERED),
    Step("unreadable", exhaust_table(0, dead_letters=False)),
    Step("limit lowered", exhaust_table(_LIMIT, dead_letters=False), _AT_LIMIT),
    Step("reject", cells.BEGIN_ARCHIVING),
    Step("delivery limit reached", release_table(_LIMIT, dead_letters=True, delayed=False), _AT_LIMIT),
    Step("unreadable", exhaust_table(0, dead_letters=True)),
    Step("limit lowered", exhaust_table(_LIMIT, dead_letters=True), _AT_LIMIT),
    Step("dead letter written", cells.FINISH_ARCHIVING),
]

NOT_DRAWN = {"STAGE", "STORED"}
"""Whatever is being written is staged: the page says so in words. What is stored of a record is no step of it."""

_HEAD = """# States

The state machines of the coordinators and of share groups, as far as the code keeps them as tables. This page is
generated from those tables by `python -m tests.docs.state_diagrams`; a test fails when it is out of date.

What is not here is not a table. The state of a consumer group (KIP-848) or a share group is derived from its members
and epochs whenever it is requested; how a member of a consumer group gets from one assignment to the next is
in the docstring of `groups/consumer/reconciliation.py`.
"""

_CLASSIC = """## Classic groups

From `groups/classic/states.py`. A rebalance goes from PreparingRebalance (members join) over CompletingRebalance (the
leader's assignment is awaited) to Stable.
"""

_TRANSACTIONS = """## Transactions

From `transactions/states.py`: one machine for each transactional id. The outcome is fixed when the Prepare record is
durable, and the next transaction may begin when all markers are. PrepareEpochFence is never entered: Kafka passes
through it in memory, here fencing goes straight to PrepareAbort.
"""

_RECORDS = """## Records in a share group

From `queues/cells.py`: one machine for each record between the start and the end offset of a share-partition.
Acknowledged and Archived are terminal. A change that a member requests takes effect when it is written: until then the
record is Staged, and returns to its former state if the write fails. Delayed is kept in `__share_group_state` as
Available, and Acquired is not kept at all: after a restart the record is available.
"""

_DEAD_LETTERS = """Where the group has a dead-letter topic, these steps lead to Archiving in place of Archived:
"""


def page() -> str:
    """The text of docs/reference/states.md."""
    diagrams = [
        (_CLASSIC, classic_groups()),
        (_TRANSACTIONS, transactions()),
        (_RECORDS, records(with_dead_letters=False)),
        (_DEAD_LETTERS, records(with_dead_letters=True)),
    ]
    return "\n".join([_HEAD, *(f"{text}\n```mermaid\n{diagram}\n```\n" for text, diagram in diagrams)])


def classic_groups() -> str:
    # The table names the states before each state.
    edges = [(before, after, "") for before in ClassicState for after in ClassicState if before in TRANSITIONS[after]]
    return _diagram(ClassicGroup("").state, edges, {state: state.value for state in ClassicState})


def transactions() -> str:
    edges = [(before, after, "") for before in TransactionState for after in sorted(NEXT_STATES[before])]
    first = TransactionMetadata(transactional_id="", producer_id=-1).state
    return _diagram(first, edges, {state: state.label for state in TransactionState})


def records(*, with_dead_letters: bool) -> str:
    labels: dict[tuple[RecordState, RecordState], list[str]] = {}
    for step in STEPS:
        for edge in _moves(step):
            if (RecordState.ARCHIVING in edge) == with_dead_letters:
                labels.setdefault(edge, []).append(step.label)
    edges = [(before, after, "<br/>".join(names)) for (before, after), names in labels.items()]
    first = None if with_dead_letters else cells.state_of(cells.FRESH)
    return _diagram(first, edges, {state: state.name.capitalize() for state in RecordState})


def _moves(step: Step) -> Iterator[tuple[RecordState, RecordState]]:
    for before in RecordState:
        after = {cells.state_of(step.table[cells.cell(before, count)]) for count in step.delivery_counts}
        assert len(after) == 1, f"{step.label}: what becomes of {before.name} depends on the delivery count"
        if after != {before}:
            yield before, after.pop()


def _diagram(first: S | None, edges: Iterable[tuple[S, S, str]], names: Mapping[S, str]) -> str:
    lines = ["stateDiagram-v2", "    direction LR"]
    if first is not None:
        lines.append(f"    [*] --> {names[first]}")
    for before, after, label in edges:
        lines.append(f"    {names[before]} --> {names[after]}" + (f": {label}" if label else ""))
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
