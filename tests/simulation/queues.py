"""Queues: workers of `penstock.client` and scripted ones take records off share groups, under every fault."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.catalog.contract import replaced_by
from penstock.client.producer import Producer
from penstock.client.share_consumer import ShareConsumer
from penstock.simulation.door import Door
from penstock.simulation.node import Node
from penstock.wire import messages as m
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import CoordinatorLoadInProgress, KafkaError
from tests.simulation.faults import EVERYWHERE
from tests.simulation.queue_history import LISTENED, QueueHistory
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.scenario import Scenario

TOPIC = "jobs"
GROUP = "workers"
PARTITIONS = 2
LOCK_MS = 2_000
LIMIT = 4
_RECORDS = 50
_QUIET_ROUNDS = 15
"""Of 200 ms: longer than a lock, after which what was ended might come again."""
_PATIENT_ROUNDS = 180
"""What is not ended may still be held by a member that is not expelled yet, as by one whose coordinator has moved."""
_EXPELLED_SECONDS = 46
"""A little more than a session."""
_PERSONAL = ("accept", "accept", "accept", "accept", "release", "release", "reject")
_TYPES = {"accept": 1, "release": 2, "reject": 3, "renew": 4}


class Queues(Scenario):
    """A share group: workers of `penstock.client`, and scripted ones that acknowledge late, twice and what they do not
    hold; accept, release, reject, renew, back-off, delivery limit. Acknowledgements are on disk when confirmed."""

    name = "queues"
    flush_ms = 0
    workers = 2
    raw_workers = 2
    services: Mapping[str, object] = {}
    """What the checkers are told that the group does (`penstock.checks.queue_services`)."""

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {
            "penstock.share.flush.interval.ms": str(cls.flush_ms),
            "group.share.min.record.lock.duration.ms": "1000",
        }

    def before_start(self) -> None:
        self.backoff_ms = 300 if self.seed % 3 == 1 else 0
        self.topic_id = b""
        self.stopped = False
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(LOCK_MS),
            "share.delivery.count.limit": str(LIMIT),
            "penstock.share.retry.backoff.ms": str(self.backoff_ms),
            "penstock.share.retry.backoff.multiplier": "1",
            **self.group_configs(),
        }
        self.catalog.change_configs(ResourceType.GROUP, GROUP, replaced_by(configs))

    def group_configs(self) -> dict[str, str]:
        """What else the group is configured to do."""
        return {}

    def topic_configs(self) -> dict[str, str]:
        return {}

    async def prepare(self) -> None:
        self.topic_id = await self.create_topic(TOPIC, PARTITIONS, self.topic_configs())
        self.record(Door(self.world, LISTENED), {self.topic_id: TOPIC})
        tolerance = self.flush_ms + 50 if self.flush_ms else 0
        self.history.add(
            "share-settings",
            group=GROUP,
            delivery_limit=LIMIT,
            max_in_flight=2000,
            flush_interval=tolerance,
            **self.services,
        )
        for number in range(self.workers):
            self.crowd.start(f"worker-{number}", self._work)
        for number in range(self.raw_workers):
            self.crowd.start(f"raw-{number}", self._work_by_hand)

    def record(self, door: Door, topics: dict[bytes, str]) -> None:
        QueueHistory(self.history, door, self.world, topics, start_offset, LOCK_MS, self.backoff_ms)

    def by_hand(self, chance: random.Random) -> tuple[int, ...]:
        """The partitions that a scripted worker takes records from; it is connected to the leader of the first."""
        return tuple(range(PARTITIONS))

    async def load(self) -> None:
        await self.world.spawn("producer", self._produce).task

    async def _produce(self) -> None:
        chance = random.Random(f"producer of {self.seed}")
        async with await started(Producer(**access(self.world), **PATIENT)) as producer:
            number = 0
            while number < _RECORDS:
                pending = []
                for _ in range(chance.randint(1, 8)):
                    pending.append(await producer.send(TOPIC, str(number), partition=chance.randrange(PARTITIONS)))
                    number += 1
                for each in pending:
                    await each
                await asyncio.sleep(chance.uniform(0, 0.3))

    # -- workers ---------------------------------------------------------------------------------------------------

    async def _work(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed} at {self.world.now_ms}")
        settings: dict[str, Any] = {"request_timeout_ms": 2_000, "max_poll_records": chance.choice([1, 3, 10])}
        while not self.stopped:
            try:
                async with ShareConsumer(
                    **access(self.world),
                    group_id=GROUP,
                    share_acknowledgement_mode="explicit",
                    fetch_max_wait_ms=200,
                    **settings,
                ) as worker:
                    worker.subscribe([TOPIC])
                    for _ in range(chance.randint(3, 12)):
                        for record in await worker.poll(1_000):
                            await asyncio.sleep(chance.choice([0, 0, 0.01, 0.3, LOCK_MS / 900]))
                            kind = chance.choice(_PERSONAL) if not self.stopped else "accept"
                            if kind == "accept" and chance.random() < 0.1:
                                await worker.renew(record)
                            getattr(worker, kind)(record)
                        if chance.random() < 0.5:
                            await worker.commit()
            except KafkaError as error:
                self.world.tell(name, f"begins anew: {error!r}")
                await asyncio.sleep(0.05)

    async def _work_by_hand(self, name: str) -> None:
        """A worker without manners: acknowledges late, twice, and what it does not hold."""
        chance = random.Random(f"{name} of {self.seed} at {self.world.now_ms}")
        while not self.stopped:
            try:
                partitions = self.by_hand(chance)
                client = await self.connect(name, partitions[0])
                await self._converse(client, partitions, chance)
                client.close()
            except Lost:
                await asyncio.sleep(0.05)

    async def _converse(self, client: RawClient, partitions: Sequence[int], chance: random.Random) -> None:
        member = str(uuid.uuid4())
        held: list[tuple[int, int]] = []
        epoch = 0
        for _ in range(chance.randint(3, 15)):
            if self.stopped:
                return
            acks: dict[int, list[tuple[int, int]]] = {}
            for partition, offset in list(held):
                if epoch and chance.random() < 0.6:
                    kind = chance.choice([*_PERSONAL, "renew"])
                    acks.setdefault(partition, []).append((offset, _TYPES[kind]))
                    if kind != "renew" and chance.random() < 0.9:
                        held.remove((partition, offset))
            if acks and chance.random() < 0.5:
                answer = await client.ask(acknowledge_request(self.topic_id, member, epoch, acks), ACKNOWLEDGED)
                if answer.error_code:
                    return
                epoch += 1
                acks = {}
            has_renewals = any(kind == _TYPES["renew"] for each in acks.values() for _, kind in each)
            most = chance.randint(1, 6)
            request = share_fetch_request(self.topic_id, partitions, member, epoch, acks, most, has_renewals)
            found = await client.ask(request, m.ShareFetchResponse)
            if found.error_code:
                return
            epoch += 1
            for topic in found.responses:
                for each in topic.partitions:
                    for run in each.acquired_records:
                        held += [
                            (each.partition_index, offset) for offset in range(run.first_offset, run.last_offset + 1)
                        ]
            await asyncio.sleep(chance.choice([0, 0.02, 0.2, LOCK_MS / 900]))

    # -- the end ---------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """One worker accepts everything that is left, when those who were killed have been expelled."""
        self.stopped = True
        await asyncio.sleep(_EXPELLED_SECONDS)
        await self.world.spawn("last", self._take_the_rest).task
        ends = self.end_offsets(TOPIC)
        records = await self.expected(ends)
        self.history.add("settled", group=GROUP, time=self.world.now_ms, records=records)
        for index, end in ends.items():
            start = await self._begins_at(index)
            self.history.add(
                "window", group=GROUP, topic=TOPIC, partition=index, start=start, time=self.world.now_ms, in_flight=0
            )
            if start != end:
                self.find("unfinished", f"the start offset of {TOPIC}-{index} is {start} of {end}")

    async def expected(self, ends: Mapping[int, int]) -> list[list[object]]:
        """The records that have to be handled by now."""
        return [[TOPIC, index, offset] for index, end in ends.items() for offset in range(end)]

    async def _begins_at(self, index: int) -> int:
        """Where the window of a partition begins, at its leader."""
        while True:
            try:
                windows = self.leading(TOPIC, index).parts.share_groups.windows
                return windows.open(GROUP, (self.topic_id, index)).core.start_offset
            except CoordinatorLoadInProgress:
                await asyncio.sleep(0.05)

    def _is_ended(self) -> bool:
        """Whether every window has come to the end of its partition."""
        place, ends = self.topic_id, self.end_offsets(TOPIC)
        windows = {index: self.leading(TOPIC, index).parts.share_groups.windows for index in ends}
        found = {index: windows[index].find(GROUP, (place, index)) for index in ends}
        return all(live.core.start_offset == ends[index] if live else not ends[index] for index, live in found.items())

    async def _take_the_rest(self) -> None:
        async with ShareConsumer(
            **access(self.world),
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            fetch_max_wait_ms=200,
        ) as worker:
            worker.subscribe([TOPIC])
            quiet = 0
            while quiet < (_QUIET_ROUNDS if self._is_ended() else _PATIENT_ROUNDS):
                records = await worker.poll(200)
                quiet = 0 if records else quiet + 1
                for record in records:
                    worker.accept(record)
            await worker.commit()


class FlushedQueues(Queues):
    """`queues`, with acknowledgements that are flushed every 100 ms: a power cut brings back those confirmed since."""

    name = "queues-flushed"
    flush_ms = 100
    kinds = tuple(kind for kind in EVERYWHERE if kind not in ("slow-disk", "pause"))


PATIENT: dict[str, Any] = {"delivery_timeout_ms": 300_000, "request_timeout_ms": 2_000}
ACKNOWLEDGED = m.ShareAcknowledgeResponse


async def started(producer: Producer) -> Producer:
    while True:
        try:
            return await producer.start()
        except KafkaError:
            await asyncio.sleep(0.05)


def start_offset(node: Node, group: str, topic_id: bytes, partition: int) -> int:
    """Where the window of a partition begins at a broker; 0 if it has none."""
    live = node.broker.parts.share_groups.windows.find(group, (topic_id, partition))
    return live.core.start_offset if live is not None else 0


def share_fetch_request(
    topic_id: bytes,
    indexes: Sequence[int],
    member: str,
    epoch: int,
    acks: dict[int, list[tuple[int, int]]],
    most: int,
    is_renewal: bool,
    wait_ms: int = 200,
) -> m.ShareFetchRequest:
    batch = m.ShareFetchRequest.AcknowledgementBatch
    partitions = [
        m.ShareFetchRequest.FetchPartition(
            partition_index=index,
            acknowledgement_batches=[batch(offset, offset, [kind]) for offset, kind in sorted(acks.get(index, []))],
        )
        for index in indexes
        if epoch == 0 or index in acks
    ]
    return m.ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=0 if is_renewal else wait_ms,
        min_bytes=0 if is_renewal else 1,
        max_bytes=0 if is_renewal else 1 << 20,
        max_records=0 if is_renewal else most,
        batch_size=0 if is_renewal else most,
        share_acquire_mode=1,
        is_renew_ack=is_renewal,
        topics=[m.ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=partitions)],
    )


def acknowledge_request(
    topic_id: bytes, member: str, epoch: int, acks: dict[int, list[tuple[int, int]]]
) -> m.ShareAcknowledgeRequest:
    batch = m.ShareAcknowledgeRequest.AcknowledgementBatch
    partitions = [
        m.ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=index,
            acknowledgement_batches=[batch(offset, offset, [kind]) for offset, kind in sorted(acks[index])],
        )
        for index in sorted(acks)
    ]
    return m.ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        is_renew_ack=any(kind == _TYPES["renew"] for each in acks.values() for _, kind in each),
        topics=[m.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic_id, partitions=partitions)],
    )
