"""`python -m bench.scrapes`: what a look costs the event loop of a broker with many groups.

Every consumer group has a committed offset, and every share group a window with records that a worker holds, for every
partition of one topic, and all of them are behind. A scrape of `/metrics` is made in slices, between which the broker
serves its clients. Then the windows of a queue are shown as the console reads them: 150 windows of 2,000 records, each
of which differs from its neighbors in the worst case. The figures are the time of all slices of a look together and
the longest slice, in CPU time of the thread, which other processes change least.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from penstock.broker.parts import Parts
from penstock.broker.share.live import LiveSharePartition, steady_ms
from penstock.broker.share.view import parse_wanted
from penstock.broker.slices import in_slices
from penstock.groups.share.protocol import InitializeShareState
from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.codec import encode_key, encode_versioned

_TOPIC = "events"
_WINDOWS_OF_PAGE = 50  # that the console draws at once

_ONE_CHANGES = 10  # of so many windows, from one scrape to the next

Look = tuple[list[float], int]
"""The times of the slices, in ms, and the bytes."""


def commit_everything(parts: Parts, partitions: int, group: str) -> None:
    """Put a group's committed offsets into its shard, as if they had been read at a start."""
    parts.groups.runtime.ensure_topic()
    value = encode_versioned(
        m.OffsetCommitValue(offset=1, leader_epoch=0, metadata="", commit_timestamp=parts.world.now_ms()), 3
    )
    shard = parts.groups.find(group).shard
    for index in range(partitions):
        shard.replay(encode_key(m.OffsetCommitKey(group=group, topic=_TOPIC, partition=index)), value, -1)


def start_queue(broker: Broker, partitions: int, group: str, held: int, at_once: int) -> None:
    """A window on each partition, in which three workers hold so many records, so many under one lock."""
    parts = broker._running().parts
    topic_id = parts.cluster.topic(_TOPIC).topic_id
    begun = threading.Event()

    def begin() -> None:
        parts.share_groups.coordinator.runtime.ensure_topic()
        action = InitializeShareState(group, 1, {topic_id: dict.fromkeys(range(partitions), 1)})
        parts.share_groups.coordinator.initialize(action, lambda *_: begun.set())

    def take() -> None:
        now_ms = steady_ms(parts.world)
        for index in range(partitions):
            live = parts.share_groups.windows.open(group, (topic_id, index))
            settings = live.settings()
            live.core.extend(1 + held)
            for number in range(held // at_once):
                member = f"worker-{number % 3}-of-{group}"
                live.core.take(member, live.core.select(at_once, settings), now_ms, 60_000)
            parts.share_groups.metrics.tallies.changed(live)

    broker._call(begin)
    if not begun.wait(60):
        raise click.ClickException(f"the state of {group} was not written within a minute")
    broker._call(take)


def produce(parts: Parts, partitions: int) -> None:
    """A few records in each partition, and a note of them."""
    assert parts.measuring is not None
    topic = parts.cluster.topic(_TOPIC)
    now_ms = parts.world.now_ms()
    for index in range(partitions):
        batch = build_batch((now_ms, None, b"x", ()) for _ in range(5))
        topic.hosted(index).append_internal(batch, now_ms)
    parts.measuring.note_arrivals()


async def in_slices_of(make: Callable[[Callable[[], Awaitable[None]]], Awaitable[list[bytes]]]) -> Look:
    """The times of the slices in which something is made, in ms, and its size."""
    slices: list[float] = []
    began = time.thread_time()

    async def yielded() -> None:
        nonlocal began
        slices.append((time.thread_time() - began) * 1000)
        await asyncio.sleep(0)
        began = time.thread_time()

    text = await make(yielded)
    slices.append((time.thread_time() - began) * 1000)
    return slices, sum(map(len, text))


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Figures(NamedTuple):
    """Of many looks at the same: ms of the event loop, and the size of what was seen."""

    median_ms: float
    p99_ms: float
    slice_p99_ms: float
    slice_largest_ms: float
    bytes: int
    slices: int

    @classmethod
    def of(cls, found: list[Look]) -> Figures:
        totals, longest = [sum(slices) for slices, _ in found], [max(slices) for slices, _ in found]
        return cls(
            statistics.median(totals),
            _percentile(totals, 0.99),
            _percentile(longest, 0.99),
            max(longest),
            found[-1][1],
            len(found[-1][0]),
        )

    def __str__(self) -> str:
        return (
            f"{self.median_ms:.1f} ms of the event loop, p99 {self.p99_ms:.1f} ms; longest slice p99 "
            f"{self.slice_p99_ms:.1f} ms, largest {self.slice_largest_ms:.1f} ms; {self.bytes:,} bytes in "
            f"{self.slices} slices"
        )


def scrapes(partitions: int, groups: int, share_groups: int, times: int) -> Figures:
    """Of scrapes of `/metrics`."""
    with _broker(partitions) as broker:
        parts = broker._running().parts
        for _ in range(20):
            broker._call(lambda: produce(parts, partitions))
        for number in range(groups):
            broker._call(partial(commit_everything, parts, partitions, f"group-{number}"))
        for number in range(share_groups):
            start_queue(broker, partitions, f"queue-{number}", 30, 10)
        lives = list(parts.share_groups.windows.all())
        found = []
        for _ in range(times):
            broker._call(partial(_change, parts, lives[::_ONE_CHANGES]))
            found.append(_on_loop(broker, parts.metrics.scrape))
        return Figures.of(found)


def _change(parts: Parts, lives: Sequence[LiveSharePartition]) -> None:
    for live in lives:
        parts.share_groups.metrics.tallies.changed(live)


def windows(partitions: int, locks: int, at_once: int, records: str, times: int) -> Figures:
    """Of looks at the windows of one queue."""
    with _broker(partitions) as broker:
        parts = broker._running().parts
        start_queue(broker, partitions, "queue", locks, at_once)
        wanted = parse_wanted(records)

        def look(pause: Callable[[], Awaitable[None]]) -> Awaitable[list[bytes]]:
            return in_slices(parts.share_groups._view._pieces("queue", wanted), parts.world.precise, pause)

        return Figures.of([_on_loop(broker, look) for _ in range(times)])


@contextmanager
def _broker(partitions: int) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="bench-scrapes-") as folder:
        config = {"penstock.metrics.listen": "127.0.0.1:0", "penstock.share.flush.interval.ms": "60000"}
        with Broker(config, data=Path(folder)) as broker:
            broker.create_topic(_TOPIC, partitions)
            yield broker


def _on_loop(broker: Broker, make: Callable[[Callable[[], Awaitable[None]]], Awaitable[list[bytes]]]) -> Look:
    assert broker._loop is not None
    return asyncio.run_coroutine_threadsafe(in_slices_of(make), broker._loop).result(60)


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--partitions", default=1000, show_default=True)
@click.option("--groups", default=100, show_default=True)
@click.option("--share-groups", default=50, show_default=True)
@click.option("--queue-partitions", default=150, show_default=True, help="Of the queue whose windows are shown.")
@click.option("--locks", default=2000, show_default=True, help="In each of those windows.")
@click.option("--looks", default=100, show_default=True)
def main(partitions: int, groups: int, share_groups: int, queue_partitions: int, locks: int, looks: int) -> None:
    click.echo(f"a scrape: {scrapes(partitions, groups, share_groups, looks)}")
    page = f"{_TOPIC}:{','.join(map(str, range(_WINDOWS_OF_PAGE)))}"
    for name, at_once, records in (
        ("a page of windows", 40, page),
        ("a page of windows at worst", 1, page),
        ("all windows at worst", 1, ""),
    ):
        click.echo(f"{name}: {windows(queue_partitions, locks, at_once, records, looks)}")


if __name__ == "__main__":
    main()
