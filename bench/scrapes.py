"""`python -m bench.scrapes`: what a scrape of `/metrics` costs the event loop of a broker with many groups.

Every consumer group has a committed offset, and every share group a start offset, for every partition of one topic, and
all of them are behind. A scrape is made in slices, between which the broker serves its clients. The figures are the
time of all slices of a scrape together and the longest slice, in CPU time of the thread, which other processes change
least.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from penstock.broker.metrics import Metrics
from penstock.broker.parts import Parts
from penstock.groups.share.protocol import InitializeShareState
from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.codec import encode_key, encode_versioned

_TOPIC = "events"


def commit_everything(parts: Parts, partitions: int, group: str) -> None:
    """Put a group's committed offsets into its shard, as if they had been read at a start."""
    parts.groups.runtime.ensure_topic()
    value = encode_versioned(
        m.OffsetCommitValue(offset=1, leader_epoch=0, metadata="", commit_timestamp=parts.world.now_ms()), 3
    )
    shard = parts.groups.find(group).shard
    for index in range(partitions):
        shard.replay(encode_key(m.OffsetCommitKey(group=group, topic=_TOPIC, partition=index)), value, -1)


def start_queue(parts: Parts, partitions: int, group: str) -> None:
    coordinator = parts.share_groups.coordinator
    topic_id = parts.cluster.topic(_TOPIC).topic_id
    coordinator.runtime.ensure_topic()
    coordinator.initialize(
        InitializeShareState(group, 1, {topic_id: dict.fromkeys(range(partitions), 1)}), lambda *_: None
    )


def produce(parts: Parts, partitions: int) -> None:
    """A few records in each partition, and a note of them."""
    assert parts.measuring is not None
    topic = parts.cluster.topic(_TOPIC)
    now_ms = parts.world.now_ms()
    for index in range(partitions):
        batch = build_batch((now_ms, None, b"x", ()) for _ in range(5))
        topic.hosted(index).append_internal(batch, now_ms)
    parts.measuring.note_arrivals()


async def scrape(metrics: Metrics) -> tuple[list[float], int]:
    """The times of the slices of a scrape, in ms, and the size of its text."""
    slices: list[float] = []
    began = time.thread_time()

    async def yielded() -> None:
        nonlocal began
        slices.append((time.thread_time() - began) * 1000)
        await asyncio.sleep(0)
        began = time.thread_time()

    text = await metrics.scrape(yielded)
    slices.append((time.thread_time() - began) * 1000)
    return slices, sum(map(len, text))


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _rows(found: list[tuple[list[float], int]]) -> Iterator[str]:
    totals = [sum(slices) for slices, _ in found]
    longest = [max(slices) for slices, _ in found]
    p99 = _percentile(totals, 0.99)
    yield f"event-loop time of a scrape: median {statistics.median(totals):.1f} ms, p99 {p99:.1f} ms"
    yield f"its longest slice:           median {statistics.median(longest):.1f} ms, largest {max(longest):.1f} ms"
    yield f"its text:                    {found[-1][1]:,} bytes in {len(found[-1][0])} slices"


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--partitions", default=1000, show_default=True)
@click.option("--groups", default=100, show_default=True)
@click.option("--share-groups", default=50, show_default=True)
@click.option("--scrapes", default=100, show_default=True)
def main(partitions: int, groups: int, share_groups: int, scrapes: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-scrapes-") as folder:
        config = {"penstock.metrics.listen": "127.0.0.1:0", "penstock.share.flush.interval.ms": "60000"}
        with Broker(config, data=Path(folder)) as broker:
            broker.create_topic(_TOPIC, partitions)
            parts = broker._running().parts
            for _ in range(20):
                broker._call(lambda: produce(parts, partitions))
            for number in range(groups):
                broker._call(partial(commit_everything, parts, partitions, f"group-{number}"))
            for number in range(share_groups):
                broker._call(partial(start_queue, parts, partitions, f"queue-{number}"))
            loop = broker._loop
            assert loop is not None
            found = [asyncio.run_coroutine_threadsafe(scrape(parts.metrics), loop).result(60) for _ in range(scrapes)]
    click.echo("\n".join(_rows(found)))


if __name__ == "__main__":
    main()
