"""Records of a share group that one process holds locked for longer than a moment.

A `Holder` gathers records, keeps their locks alive by renewing them in the background, and accepts or releases them
when told. It lives in an event loop in a thread of its own, so that renewals go on while the program does other work.

A set of records is `Places`: offsets by partition. In JSON it is written as runs, {"orders": {"0": [[17, 40]]}}.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from penstock.client.errors import IllegalState
from penstock.client.security import SecurityConfig
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.client.types import ConsumerRecord, TopicPartition
from penstock.spark.security import NO_SECURITY
from penstock.wire.errors import KafkaError

_log = logging.getLogger("penstock.spark")

T = TypeVar("T")
Record = ConsumerRecord[bytes, bytes]
Places = dict[TopicPartition, set[int]]
JsonPlaces = dict[str, dict[str, list[list[int]]]]

_TICK_S = 0.1
_MOST = 1 << 30
_LONGEST_BATCH_MS = 24 * 3_600_000  # locks are renewed meanwhile, so a long batch is no reason to be put out


# Sets of records


def places_of(records: Iterable[Record]) -> Places:
    found: Places = {}
    for record in records:
        found.setdefault(record.topic_partition, set()).add(record.offset)
    return found


def count(places: Mapping[TopicPartition, set[int]]) -> int:
    return sum(len(offsets) for offsets in places.values())


def union(one: Places, other: Places) -> Places:
    return {tp: one.get(tp, set()) | other.get(tp, set()) for tp in {*one, *other}}


def without(places: Places, removed: Places) -> Places:
    left = {tp: offsets - removed.get(tp, set()) for tp, offsets in places.items()}
    return {tp: offsets for tp, offsets in left.items() if offsets}


def runs_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Offsets as (first, last) pairs without holes, in order."""
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def to_json(places: Places) -> JsonPlaces:
    topics: JsonPlaces = {}
    for tp in sorted(places):
        if places[tp]:
            topics.setdefault(tp.topic, {})[str(tp.partition)] = [list(run) for run in runs_of(places[tp])]
    return topics


def from_json(topics: Mapping[str, Mapping[str, Iterable[Iterable[int]]]]) -> Places:
    return {
        TopicPartition(topic, int(number)): {offset for first, last in runs for offset in range(first, last + 1)}
        for topic, partitions in topics.items()
        for number, runs in partitions.items()
    }


# Holding


class Holder:
    """A share consumer whose records stay locked until they are accepted or released. Belongs to one event loop."""

    def __init__(
        self, bootstrap_servers: str, group: str, client_id: str, security: SecurityConfig = NO_SECURITY
    ) -> None:
        self._consumer = ShareConsumer(
            security.given(),
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            group_id=group,
            share_acknowledgement_mode="explicit",
            max_poll_interval_ms=_LONGEST_BATCH_MS,
            allow_auto_create_topics=False,
        )
        self._held: dict[tuple[TopicPartition, int], Record] = {}
        self._waiting: list[Record] = []  # of those held, not yet asked for
        self._renewing: asyncio.Task[None] | None = None

    async def start(self, topics: Iterable[str]) -> None:
        await self._consumer.start()
        self._consumer.subscribe(topics)
        self._renewing = asyncio.create_task(self._renew_for_ever())

    async def close(self) -> None:
        """Release what is held and leave the group."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        self._held.clear()
        self._waiting.clear()
        await self._consumer.close()

    @property
    def held(self) -> Places:
        """What was gathered and not decided about."""
        return without(places_of(self._held.values()), places_of(self._waiting))

    async def gather(self, limit: int, wait_ms: float) -> Places:
        """Lock about `limit` more records: those that have come, or else the first that come within `wait_ms`."""
        await self._take_in(limit, 0)
        if not self._waiting:
            await self._take_in(limit, wait_ms)
            await self._take_in(limit, 0)  # of other partitions, in the same answer
        fresh, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return places_of(fresh)

    async def _take_in(self, limit: int, wait_ms: float) -> None:
        """Hold what the consumer has got. From here on its locks are renewed."""
        while taken := await self._consumer.take(limit, wait_ms):
            for record in taken:
                # The data is read again by the tasks; the driver keeps only what it needs to acknowledge.
                slim = record._replace(key=None, value=None, headers=())
                self._held[slim.topic_partition, slim.offset] = slim
                self._waiting.append(slim)
            if wait_ms:
                break

    async def accept(self, places: Places) -> Places:
        """Accept those that are held; returns those of which the broker said that they are done."""
        return await self._decide(places, AcknowledgeType.ACCEPT)

    async def release(self, places: Places) -> Places:
        return await self._decide(places, AcknowledgeType.RELEASE)

    async def _decide(self, places: Places, kind: AcknowledgeType) -> Places:
        decided: list[Record] = []
        for tp, offsets in places.items():
            for offset in offsets:
                record = self._held.pop((tp, offset), None)
                if record is not None:
                    with suppress(IllegalState):
                        self._consumer.acknowledge(record, kind)
                        decided.append(record)
        failures = await self._consumer.commit()
        return {tp: offsets for tp, offsets in places_of(decided).items() if failures.get(tp, None) is None}

    async def _renew_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(_TICK_S)  # short: how long locks last is known only after the first answer
            await self._take_in(_MOST, 0)  # a fetch may be answered when nobody waits for it any more
            if not self._held:
                renewed = loop.time()
            if loop.time() - renewed < self._consumer.acquisition_lock_timeout_ms / 3000:
                continue
            renewed = loop.time()
            try:
                await self._consumer.renew(*self._held.values())
            except (KafkaError, IllegalState) as error:
                _log.warning("locks of %d records were not renewed: %s", len(self._held), error)


class LoopThread:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, T], timeout_s: float = 120.0) -> T:
        """Run a coroutine there and wait for it here."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def make(self, build: Callable[[], T]) -> T:
        """Build something that must be born inside the loop."""

        async def inside() -> T:
            return build()

        return self.run(inside())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
