"""A broker that kills itself at a chosen point of the first transaction that ends (or begins).

    python -m tests.transactions.crashing_broker POINT DATA_FOLDER PORT

POINT `never` serves as usual.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.broker.foundation import Settings
from penstock.broker.run import run
from penstock.broker.transaction_durability import TransactionDurability
from penstock.broker.transaction_markers import TransactionMarkers
from penstock.coordination.runtime import CoordinatorRuntime
from penstock.transactions.records import metadata_of, transactional_id_of
from penstock.transactions.states import TransactionState

ENDING = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
ENDED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def around_record(states: tuple[TransactionState, ...], *, after: bool) -> None:
    """Die before or after a record with one of these states is appended."""
    append = CoordinatorRuntime._append

    def appending(runtime, handle, effects):  # type: ignore[no-untyped-def]
        written = runtime.topic_name == "__transaction_state" and any(
            metadata_of(transactional_id_of(key) or "", value).state in states  # type: ignore[union-attr]
            for key, value in effects.records
            if value is not None
        )
        if written and not after:
            die()
        result = append(runtime, handle, effects)
        if written:
            die()
        return result

    CoordinatorRuntime._append = appending  # type: ignore[method-assign]


def before_call(owner: type, name: str, number: int = 1) -> None:
    """Die when a method is called for the given time."""
    method = getattr(owner, name)
    calls = 0

    def calling(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            die()
        return method(*args)

    setattr(owner, name, calling)


POINTS: dict[str, Callable[[], None]] = {
    "before-the-first-partition-is-noted": lambda: around_record((TransactionState.ONGOING,), after=False),
    "after-the-first-partition-is-noted": lambda: around_record((TransactionState.ONGOING,), after=True),
    "before-the-outcome-is-noted": lambda: around_record(ENDING, after=False),
    "after-the-outcome-is-noted": lambda: around_record(ENDING, after=True),
    "before-the-first-marker": lambda: before_call(TransactionMarkers, "append"),
    "before-the-second-marker": lambda: before_call(TransactionMarkers, "append", 2),
    "after-the-last-marker": lambda: before_call(TransactionDurability, "_marked"),
    "before-the-last-marker-is-reported": lambda: before_call(TransactionDurability, "_marked", 2),
    "before-the-completion-is-noted": lambda: around_record(ENDED, after=False),
    "after-the-completion-is-noted": lambda: around_record(ENDED, after=True),
    "never": lambda: None,
}
BEGINNING = [point for point in POINTS if "first-partition" in point]
END = [point for point in POINTS if point not in BEGINNING and point != "never"]


def main() -> None:
    point, folder, port = sys.argv[1:]
    POINTS[point]()
    run(Settings(data=Path(folder), listen=[f"127.0.0.1:{port}"]))


if __name__ == "__main__":
    main()
