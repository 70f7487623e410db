"""ListTransactions (KIP-664, KIP-994, KIP-1152) and DescribeTransactions: what the coordinator knows, for people.

Patterns are RE2's and are matched in linear time, by the automaton that also matches topic subscriptions: no pattern
can stop the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.coordination.regex import TopicRegex
from penstock.transactions.metadata import TopicPartition, TransactionMetadata
from penstock.transactions.states import STATE_OF_LABEL, TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import InvalidRegularExpression


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which transactional ids to list. An empty filter of a kind lets all pass."""

    states: frozenset[TransactionState]
    by_state: bool
    producer_ids: frozenset[int]
    duration_ms: int
    pattern: TopicRegex | None
    unknown_states: tuple[str, ...]

    def lets_pass(self, meta: TransactionMetadata, now_ms: int) -> bool:
        if meta.state == TransactionState.DEAD:
            return False
        if self.producer_ids and meta.producer_id not in self.producer_ids:
            return False
        if self.by_state and meta.state not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - meta.start_timestamp_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.matches(meta.transactional_id)


def list_filter(request: m.ListTransactionsRequest) -> ListFilter:
    return ListFilter(
        states=frozenset(STATE_OF_LABEL[name] for name in request.state_filters if name in STATE_OF_LABEL),
        by_state=bool(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        pattern=_compiled(request.transactional_id_pattern),
        unknown_states=tuple({name: None for name in request.state_filters if name not in STATE_OF_LABEL}),
    )


def _compiled(pattern: str | None) -> TopicRegex | None:
    if not pattern:
        return None
    try:
        return TopicRegex(pattern)
    except (ValueError, RecursionError) as error:
        raise InvalidRegularExpression(
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}."
        ) from None


def listed(meta: TransactionMetadata) -> m.ListTransactionsResponse.TransactionState:
    return m.ListTransactionsResponse.TransactionState(
        transactional_id=meta.transactional_id,
        producer_id=meta.producer_id,
        transaction_state=meta.state.label,
    )


def described(
    meta: TransactionMetadata, partitions: Iterable[TopicPartition]
) -> m.DescribeTransactionsResponse.TransactionState:
    """`partitions` are those of the open transaction, or those that still wait for their marker."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return m.DescribeTransactionsResponse.TransactionState(
        transactional_id=meta.transactional_id,
        transaction_state=meta.state.label,
        transaction_timeout_ms=meta.timeout_ms,
        transaction_start_time_ms=meta.start_timestamp_ms,
        producer_id=meta.producer_id,
        producer_epoch=meta.producer_epoch,
        topics=[
            m.DescribeTransactionsResponse.TopicData(topic=name, partitions=numbers) for name, numbers in topics.items()
        ],
    )
