"""Checkers of histories: from what clients did and saw, whether promises were kept.

`check` takes a history (`penstock.checks.history`) from anywhere and returns the anomalies in it: lost, duplicated,
reordered and aborted records, records of a queue that two workers held or that were never finished, partitions
with two owners, offsets that went back. The checkers know nothing of brokers, so they judge Apache Kafka alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.checks.groups import GroupChecker
from penstock.checks.history import Finding, HistoryError, Operation, read_history
from penstock.checks.queue_services import QueueServiceChecker
from penstock.checks.queues import QueueChecker
from penstock.checks.streams import StreamChecker

_UNFIT = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a checker raises when a field is not of the kind that it has to be. Each is looked at millions of times."""

__all__ = ["Finding", "HistoryError", "Operation", "check", "read_history"]


def check(history: Iterable[Operation]) -> list[Finding]:
    """The anomalies in a history, in the order of its lines. Raises HistoryError if a line is not an operation."""
    checkers = (StreamChecker(), QueueChecker(), QueueServiceChecker(), GroupChecker())
    operation: Operation = {}
    try:
        for operation in history:
            for checker in checkers:
                checker.add(operation)
    except _UNFIT as error:
        raise HistoryError(
            f"line {operation.get('line')}: a field of {operation.get('op')} is unfit: {error!r}"
        ) from error
    try:
        return sorted((found for checker in checkers for found in checker.finish()), key=lambda each: each.line)
    except _UNFIT as error:
        raise HistoryError(f"the fields of some operations do not fit together: {error!r}") from error
