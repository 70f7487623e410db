"""The mirror as a whole: finds topics, keeps them and their groups up to date, and holds the lease.

`Mirror` runs until it is stopped, or until another mirror of the same pair has taken the lease. A topic that cannot go
on stops alone and is reported. Errors that may pass are waited out, however long they last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penstock.client.admin import Admin
from penstock.client.identity import ProducerIdentity
from penstock.client.metadata import TopicInfo
from penstock.client.offsets import fetch_committed
from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition
from penstock.mirror.acls import copy_acls
from penstock.mirror.bulk import Bulk, Spread
from penstock.mirror.copying import Progress
from penstock.mirror.failures import MirrorError, Unsettled
from penstock.mirror.filling import Filler
from penstock.mirror.groups import GroupCopy
from penstock.mirror.lease import Lease
from penstock.mirror.notes import Note, name_of, read_note
from penstock.mirror.source import Source
from penstock.mirror.topics import Parts, TopicMirror
from penstock.wire.errors import KafkaError

_TIMEOUT_MS = 60_000
_START_MS = 15_000
"""How long a broker that does not answer is waited for at the start."""
_PREPARED_AT_ONCE = 8
SETTINGS: dict[str, object] = {
    "client_id": "penstock-mirror",
    "allow_auto_create_topics": False,
    "enable_metrics_push": False,
    "metadata_max_age_ms": 30_000,
}


@dataclass(slots=True, frozen=True)
class Plan:
    """What is mirrored, and how often what is not records is looked at."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    with_acls: bool = False
    again: bool = False
    """Mirror although the programs have changed over before."""
    interval_s: float = 2.0

    def takes(self, topic: str) -> bool:
        return any(fnmatchcase(topic, each) for each in self.include) and not any(
            fnmatchcase(topic, each) for each in self.exclude
        )


@dataclass(slots=True, frozen=True)
class Status:
    """How a mirror stands."""

    topics: int
    partitions: int
    lag: int
    records: int
    bytes: int
    expired: int
    groups: int
    held_back: int
    problems: list[str]
    notes: list[str]
    trouble: str
    is_ready: bool
    """Whether every topic that was found is being copied, or has stopped with a problem."""


class Mirror:
    """`async with Mirror(…) as mirror: await mirror.run()`."""

    def __init__(
        self,
        from_: Mapping[str, object],
        to: Mapping[str, object],
        plan: Plan,
        *,
        spread: Spread | None = None,
    ) -> None:
        """`spread` runs the tasks of a bulk copy (see `bulk`)."""
        self.plan = plan
        self._bulk = None
        if spread is not None:
            self._bulk = Bulk({**from_, **SETTINGS}, {**to, **SETTINGS}, spread)
        self.from_ = Admin({**from_, **SETTINGS})
        self.to = Admin({**to, **SETTINGS})
        self.topics: dict[str, TopicMirror] = {}
        self.trouble = ""
        self.groups: GroupCopy
        self.parts: Parts
        self._rounds: list[asyncio.Task[None]] = []
        self._has_looked = asyncio.Event()
        self._excess: dict[TopicPartition, int] = {}
        """Partitions that ended behind what the mirror has written; twice in a row is no coincidence."""
        self._committed: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Mirror:
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _start(self) -> None:
        for admin in (self.from_, self.to):
            await admin.cluster.retrying(admin.cluster.start, _START_MS)
        lease = Lease(self.to.cluster, name_of(await different_clusters(self.from_, self.to)))
        await lease.take()
        notes = await read_notes(self.to, lease.name)
        if not self.plan.again and (over := [note for note in notes.values() if note.cut_over_ms >= 0]):
            raise MirrorError(
                f"The programs of {len(over)} partitions have changed over to the target already. To mirror in the "
                "other direction, swap --from and --to; to continue in this one anyway, add --again."
            )
        known = next(iter(notes.values()), None)
        producer_id, epoch = (known.producer_id, known.producer_epoch) if known else await self._new_producer()
        source = Source(self.from_)
        filler = Filler(self.to, lease)
        self.parts = Parts(self.from_, self.to, source, lease, filler, producer_id, epoch, notes, self._bulk)
        self.groups = GroupCopy(self.from_, self.to, lease, self._is_mirrored)

    async def _new_producer(self) -> tuple[int, int]:
        identity = ProducerIdentity(self.to.cluster, _TIMEOUT_MS)
        await identity.prepare()
        return identity.producer_id, identity.epoch

    async def close(self) -> None:
        for task in self._rounds:
            task.cancel()
        await asyncio.gather(*self._rounds, return_exceptions=True)
        await asyncio.gather(*(topic.stop() for topic in self.topics.values()))
        if hasattr(self, "parts"):
            await self.parts.lease.close()
        await self.from_.close()
        await self.to.close()

    async def run(self) -> None:
        """Mirror until cancelled; raises MirrorError when it cannot go on."""
        work = (self.find_topics, self.copy_groups, self.note_progress)
        self._rounds = [asyncio.create_task(self._again_and_again(each)) for each in work]
        self._rounds.append(asyncio.create_task(self.parts.source.run()))
        if self._bulk is not None:
            self._rounds.append(asyncio.create_task(self._copy_in_bulk(self._bulk)))
        done, _ = await asyncio.wait(self._rounds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def _again_and_again(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                self.trouble = ""
            except Unsettled as error:
                self.trouble = str(error)
            except KafkaError as error:
                if not error.retriable:
                    raise MirrorError(f"The mirror cannot continue: {error}.") from error
                self.trouble = str(error)
            await asyncio.sleep(self.plan.interval_s)

    async def _copy_in_bulk(self, bulk: Bulk) -> None:
        """Once: have the tasks copy what is there after the first look at all topics."""
        await self._has_looked.wait()
        copies = [
            (copy, topic.topic_id)
            for topic in self.topics.values()
            if topic.problem is None
            for copy in topic.partitions.values()
        ]
        await bulk.run(self.from_, self.to, copies, self.parts.notes)

    # Topics

    async def find_topics(self) -> None:
        """Begin with topics and partitions that are new, and keep configs and ACLs equal."""
        infos = [info for info in await self.from_.list_topics() if self._is_mirrored(info.name)]
        self.from_.cluster.want(info.name for info in infos)
        busy = asyncio.Semaphore(_PREPARED_AT_ONCE)

        async def update(topic: TopicMirror, info: TopicInfo) -> None:
            async with busy:
                with contextlib.suppress(Unsettled):
                    await topic.update(info)

        for info in infos:
            if info.name not in self.topics:
                self.topics[info.name] = TopicMirror(self.parts, info)
        await asyncio.gather(*(update(self.topics[info.name], info) for info in infos))
        there = {info.name for info in infos}
        for name, topic in self.topics.items():
            if name not in there and topic.problem is None:
                await topic.stop(f"the topic {name} was deleted at the source; the target keeps its copy")
        self._has_looked.set()
        if self.plan.with_acls:
            await copy_acls(self.from_, self.to)

    def _is_mirrored(self, topic: str) -> bool:
        return not topic.startswith("__") and self.plan.takes(topic)

    def progress(self) -> Iterator[tuple[TopicPartition, Progress]]:
        """Of every partition that is being copied."""
        for topic in self.topics.values():
            if topic.problem is None:
                yield from topic.progress.items()

    def ends(self) -> dict[TopicPartition, int]:
        """How far each partition is at the target."""
        return {tp: progress.end for tp, progress in self.progress() if progress.end >= 0}

    # Groups and notes

    async def copy_groups(self) -> None:
        if ends := self.ends():
            await self.groups.copy(ends)

    async def note_progress(self) -> None:
        """Commit how far the mirror is, which fails once it is fenced; see whether somebody else has written."""
        ends = self.ends()
        changed = {tp: end for tp, end in ends.items() if self._committed.get(tp) != end}
        if not changed:
            changed = dict(list(ends.items())[:1])
        notes = {tp: self.parts.notes[tp].commit(end) for tp, end in changed.items()}
        if notes:
            await self.parts.lease.commit({self.parts.lease.name: notes})
        else:
            await self.parts.lease.renew()
        self._committed.update(changed)
        await self._look_at_ends(list(ends))

    async def _look_at_ends(self, tps: list[TopicPartition]) -> None:
        if not tps:
            return
        latest = dict.fromkeys(tps, OffsetSpec.LATEST)
        there = await self.to.list_offsets(latest)
        stable = await self.from_.list_offsets(latest, isolation=IsolationLevel.READ_COMMITTED)
        seen: dict[TopicPartition, int] = {}
        for topic in list(self.topics.values()):
            for copy in topic.partitions.values():
                tp = copy.tp
                if tp not in there or topic.problem is not None:
                    continue
                copy.progress.source_end = max(copy.progress.source_end, stable[tp].offset)
                excess = there[tp].offset - copy.planned
                if excess > 0:
                    seen[tp] = there[tp].offset
                if excess > 0 and self._excess.get(tp) == there[tp].offset:
                    await topic.stop(
                        f"{tp} ends at offset {there[tp].offset:,} at the target, {excess:,} behind what the mirror "
                        "has written: somebody else writes there. Stop them and delete the topic at the target to "
                        "have it copied again"
                    )
        self._excess = seen

    def status(self) -> Status:
        mirrored = list(self.topics.values())
        progress = [each for topic in mirrored for each in topic.progress.values()]
        refused = [
            f"{topic.name}: the target does not take {name}: {why}"
            for topic in mirrored
            for name, why in topic.configs.refused.items()
        ]
        active = [
            f"the group {name} has members at the target already and is left alone" for name in self.groups.active
        ]
        expired = [
            f"the source deleted {each.expired:,} offsets of {tp} before they were copied"
            for topic in mirrored
            for tp, each in topic.progress.items()
            if each.expired
        ]
        return Status(
            topics=len(mirrored),
            partitions=len(progress),
            lag=sum(max(each.lag, 0) for each in progress),
            records=sum(each.records for each in progress),
            bytes=sum(each.bytes for each in progress),
            expired=sum(each.expired for each in progress),
            groups=sum(map(bool, self.groups.copied.values())) + sum(map(bool, self.groups.shared.values())),
            held_back=self.groups.held_back,
            problems=[topic.problem for topic in mirrored if topic.problem] + list(self.groups.problems.values()),
            notes=refused + active + expired + ([self._bulk.failure] if self._bulk and self._bulk.failure else []),
            trouble=self.trouble or next((each.trouble for each in progress if each.trouble), ""),
            is_ready=self._has_looked.is_set()
            and all(topic.problem is not None or topic.is_prepared for topic in mirrored)
            and all(each.end >= 0 for topic in mirrored if topic.problem is None for each in topic.progress.values()),
        )


async def different_clusters(from_: Admin, to: Admin) -> str:
    """The source's cluster id, after a look at whether there are two clusters."""
    ids = [(await admin.describe_cluster()).cluster_id for admin in (from_, to)]
    if ids[0] is None:
        raise MirrorError("The source does not say its cluster id; it is older than Apache Kafka 0.10.1.")
    if ids[0] == ids[1]:
        raise MirrorError(f"--from and --to are the same cluster ({ids[0]}).")
    return ids[0]


async def read_notes(to: Admin, name: str) -> dict[TopicPartition, Note]:
    found = await fetch_committed(to.cluster, name, None, require_stable=True)
    notes = {tp: read_note(at.metadata) for tp, at in found.items()}
    return {tp: note for tp, note in notes.items() if note is not None}
