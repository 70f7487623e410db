"""What a caller may pass for a partition: a `TopicPartition`, or a plain pair such as `("orders", 0)`.

Every call that takes partitions first turns them into `TopicPartition` here, and refuses anything else with a
`UsageError`; beyond that point there are no plain pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.client.errors import UsageError
from penstock.client.types import OffsetAndMetadata, TopicPartition

AnyPartition = TopicPartition | tuple[str, int]
# The key of a mapping is invariant: `Mapping[AnyPartition, int]` would take no `dict[TopicPartition, int]`.
P = TypeVar("P", bound=tuple[str, int])
T = TypeVar("T")


def partition_of(given: AnyPartition) -> TopicPartition:
    """The partition that a caller named."""
    if type(given) is TopicPartition:
        return given
    match given:
        case [str() as topic, int() as number] if number >= 0:
            return TopicPartition(topic, number)
    raise UsageError(f"{given!r} is not a partition; pass TopicPartition('orders', 0) or ('orders', 0)")


def partitions_of(given: Iterable[AnyPartition]) -> list[TopicPartition]:
    """The partitions that a caller listed."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        raise UsageError(f"{given!r} is one partition where a list of them is expected; pass [{given!r}]")
    return [partition_of(each) for each in given]


def keyed_by_partition(given: Mapping[P, T]) -> dict[TopicPartition, T]:
    """What a caller gave for each of several partitions."""
    return {partition_of(tp): value for tp, value in given.items()}


def whole_offsets(given: Mapping[P, OffsetAndMetadata | int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit that a caller gave: bare numbers have no metadata."""
    return {
        tp: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        for tp, offset in keyed_by_partition(given).items()
    }
