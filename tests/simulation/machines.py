"""The loads of one broker on the files of its machine, whose disk tears, fills up, fails and cannot be read."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping

from penstock.client.types import TopicPartition
from penstock.log.segment import LOG_SUFFIX
from penstock.records.batch import ATTRIBUTES_AT, iter_headers
from penstock.simulation.machine import MachineSimulation
from penstock.wire.errors import CorruptMessage
from tests.simulation.faults import EVERYWHERE, ON_FILES
from tests.simulation.followers import Followed
from tests.simulation.groups import ConsumerGroups
from tests.simulation.queues import Queues
from tests.simulation.removal import CompactedCoordinators, Compacting, TrimmedQueues, Trimming
from tests.simulation.scenario import Scenario
from tests.simulation.stream_requests import TOPIC
from tests.simulation.streams import Streams, Transactions

_DELTA_AT, _DELTA_END = 23, 27
"""Where a batch says how many offsets it has. A bit there, and who reads is told to pass over more than the batch."""
_OF_THE_DISK = re.compile(r"Input/output error|No space left on device")


class OnFiles(Scenario):
    """What loads need to know of a machine with files."""

    world: MachineSimulation
    kinds = (*EVERYWHERE, *ON_FILES)

    @classmethod
    def make_world(cls, seed: int) -> MachineSimulation:
        return MachineSimulation(seed, cls.configs(seed), cls.security_protocol(seed))

    def end_offsets(self, topic: str) -> dict[int, int]:
        logs = self.world.broker.parts.storage.logs()
        return {log.partition: log.log_end_offset for log in logs if log.topic == topic}

    def expects(self, error: str) -> bool:
        return bool(_OF_THE_DISK.search(error))


class FileStreams(OnFiles, Streams):
    """`streams`, on files."""

    name = "files-streams"


class FileFollowed(OnFiles, Followed):
    """Streams with readers of `penstock.client`, which have to notice by themselves that a power cut
    has taken records that they have read."""

    name = "files-followed"


class FileRot(FileFollowed):
    """When all is written, bits of stored batches flip: those that hold them are reported and never shown.

    What rots before it is known to be on disk, and is read when the broker starts after a crash, ends the log.
    """

    name = "files-rot"
    _BITS = 4

    async def finish(self) -> None:
        await super().finish()
        written = self._seen_by("last-0")
        damaged = self._damage()
        await self.world.stop_broker()
        await self.world.start_broker()
        shown = await self._read_around(damaged)
        for place in written.keys() | shown.keys():
            is_damaged = any(partition == place[0] and first <= place[1] < end for partition, first, end in damaged)
            if shown.get(place) != (None if is_damaged else written.get(place)):
                self.find("rot", f"{place} held {written.get(place)}, and {shown.get(place)} was read")

    def _seen_by(self, reader: str) -> dict[tuple[int, int], str]:
        return {
            (record[1], record[2]): record[3]
            for operation in self.history.operations
            if operation["op"] == "poll" and operation["process"] == reader
            for record in operation["records"]  # type: ignore[attr-defined]
        }

    def _damage(self) -> set[tuple[int, int, int]]:
        """Partitions, first offsets and ends of the batches in which a bit has flipped."""
        disk, chance = self.world.disk, random.Random(f"rot of {self.seed}")
        batches = []
        for path in disk.files():
            folder, _, name = path.rpartition("/")
            if folder.startswith(f"{TOPIC}-") and name.endswith(LOG_SUFFIX):
                data = (disk.folder / path).read_bytes()
                batches += [(path, int(folder.rpartition("-")[2]), at, header) for at, header in iter_headers(data)]
        damaged = set()
        for path, partition, at, header in chance.sample(batches, min(self._BITS, len(batches))):
            disk.rot(path, at + chance.choice([*range(ATTRIBUTES_AT, _DELTA_AT), *range(_DELTA_END, header.size)]))
            damaged.add((partition, header.base_offset, header.next_offset))
            self.world.fault("rot", f"of {path} at offset {header.base_offset}")
        return damaged

    async def _read_around(self, damaged: set[tuple[int, int, int]]) -> dict[tuple[int, int], str]:
        """Read everything, passing over what is reported as broken, which is just what was damaged."""
        shown: dict[tuple[int, int], str] = {}
        reported: set[tuple[int, int, int]] = set()

        async def read() -> None:
            ends = self.end_offsets(TOPIC)
            async with self._follower(0) as consumer:
                places = [TopicPartition(TOPIC, partition) for partition in ends]
                consumer.assign(places)
                for place in places:
                    consumer.seek(place, 0)
                while any([await consumer.position(place) < ends[place.partition] for place in places]):
                    try:
                        for record in await consumer.poll(300):
                            shown[record.partition, record.offset] = bytes(record.value or b"").decode()
                    except CorruptMessage:
                        at = {place.partition: await consumer.position(place) for place in places}
                        broken = {each for each in damaged - reported if each[1] == at[each[0]]}
                        if not broken:
                            self.find("rot", f"a batch is reported as broken, and none of those at {at} is")
                            return
                        reported.update(broken)
                        for partition, _, end in broken:
                            consumer.seek(TopicPartition(TOPIC, partition), end)

        await self.world.spawn("around", read).task
        for partition, first, _ in damaged - reported:
            self.find("rot", f"the broken batch at offset {first} of partition {partition} was not reported")
        return shown


class FileSegments(FileStreams):
    """Segments of a few records, and checkpoints all the time: what a start believes without looking."""

    name = "files-segments"
    kinds = ("power-cut", "power-cut", "kill", "clean-stop", "sync-fails", "slow-disk", "disk-full")
    _PAUSE_SECONDS = 0.15

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        return await super().create_topic(name, partitions, {"internal.segment.bytes": "600", **(configs or {})})

    async def load(self) -> None:
        saving = asyncio.create_task(self._save())
        await super().load()
        saving.cancel()

    async def finish(self) -> None:
        await super().finish()
        offsets: dict[int, list[int]] = {}
        for operation in self.history.operations:
            if operation["op"] == "poll" and operation["process"] == "last-0":
                for _, partition, offset, _ in operation["records"]:  # type: ignore[attr-defined]
                    offsets.setdefault(partition, []).append(offset)
        for partition, seen in offsets.items():
            if seen != list(range(len(seen))):
                self.find("hole", f"partition {partition} has no records at some offsets: {seen}")

    async def _save(self) -> None:
        [node] = self.world.nodes
        while True:
            await asyncio.sleep(self._PAUSE_SECONDS)
            if node.is_serving:
                self.world.loop.call_soon(node.broker.parts.storage.save_progress, context=node.process.context)


class FileTransactions(OnFiles, Transactions):
    """`transactions`, on files."""

    name = "files-transactions"


class FileQueues(OnFiles, Queues):
    """`queues`, on files."""

    name = "files-queues"


class FileGroups(OnFiles, ConsumerGroups):
    """`groups-848`, on files."""

    name = "files-groups"


class OnStalledFiles(OnFiles):
    """Where the power also goes when no sync has ended for a while."""

    kinds = (*OnFiles.kinds, "power-cut-stalled", "power-cut-stalled")


class FileTrimming(OnStalledFiles, Trimming):
    """`streams`, and records go away under their readers: an administrator deletes them up to an offset, retention
    drops them by size or by age, each no further than it may."""

    name = "files-trimmed"


class FileTrimmedQueues(OnStalledFiles, TrimmedQueues):
    """`queues`, and records go away in the same ways under workers that hold them and others that wait."""

    name = "files-queues-trimmed"


class FileCompacting(OnStalledFiles, Compacting):
    """Idempotent and transactional producers write few keys, and tombstones, into a topic that is compacted all the
    time under its readers; deleted up to an offset as well with every third seed."""

    name = "files-compacted"


class FileCompactedTransactions(OnStalledFiles, CompactedCoordinators, Transactions):
    """`transactions`: coordinators read what compaction has left of their logs."""

    name = "files-transactions-compacted"


class FileCompactedQueues(OnStalledFiles, CompactedCoordinators, Queues):
    """`queues`: the state of share groups is compacted all the time, and read after each restart."""

    name = "files-queues-compacted"


class FileCompactedGroups(OnStalledFiles, CompactedCoordinators, ConsumerGroups):
    """`groups-848`: groups and offsets are compacted all the time, and read after each restart."""

    name = "files-groups-compacted"
