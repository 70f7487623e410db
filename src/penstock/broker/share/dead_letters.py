"""Writes dead letters: rejected and exhausted records go to the group's dead-letter topic before they are archived.

The order is what makes it safe: the record is ARCHIVING on disk, then its letter is on disk, then it is ARCHIVED. A
crash in between finds it ARCHIVING, looks whether the letter was written, and goes on from there, so that each record
has exactly one letter. Only when there is no topic that takes it is a record archived without one, as in Kafka,
because a record that can neither be delivered nor buried would hold the window for ever. A refusal that may pass (a
full disk, a leader that moves, a catalog that does not answer) is no such reason: the letter is tried again, less and
less often, with the settings that the group has by then. Until it is written the record stays ARCHIVING.

A letter is written with the rights of whoever named the dead-letter topic: with READ on the record's topic and WRITE on
the dead-letter topic, at the time of the letter. They could have copied the record themselves.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.share.letters_elsewhere import (
    LOOK_BACK_OFFSETS,
    Delivery,
    LettersElsewhere,
    PartitionElsewhere,
)
from penstock.broker.share.reading import LogReader, NotInMemory
from penstock.broker.topics import Partition, Topic, check_name
from penstock.queues.dead_letters import Letter, Origin, buried_offsets, letters, without
from penstock.queues.settings import ShareSettings
from penstock.queues.transitions import DeadLetterCause, DeadLetterRange
from penstock.records.batch import CorruptBatch, iter_headers
from penstock.records.builder import build_batch
from penstock.records.record import Record, iter_records
from penstock.storage.contract import StorageError
from penstock.wire.errors import ErrorCode, KafkaError, LeaderNotAvailable, TopicAlreadyExists

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.durability import Durability
    from penstock.broker.gate import Gate
    from penstock.broker.share.configs import ShareConfigs
    from penstock.broker.share.live import LiveSharePartition
    from penstock.broker.topic_manager import TopicManager
    from penstock.broker.world import World

log = logging.getLogger("penstock.share")

T = TypeVar("T")

_LETTERS_PER_BATCH = 100
_READ_BYTES = 1 << 20
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 30.0

ENABLE_CONFIG = "errors.deadletterqueue.group.enable"


class DeadLetters:
    def __init__(
        self,
        cluster: ClusterView,
        topics: TopicManager,
        durability: Durability,
        world: World,
        configs: ShareConfigs,
        config: BrokerConfig,
        gate: Gate,
        elsewhere: LettersElsewhere,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._durability = durability
        self._world = world
        self._configs = configs
        self._config = config
        self._gate = gate
        self._elsewhere = elsewhere
        self.records: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._complained: dict[str, float] = {}
        """When it was last said of a group that its letters wait."""

    def bury(
        self, live: LiveSharePartition, ranges: Sequence[DeadLetterRange], settings: ShareSettings, tries: int = 0
    ) -> None:
        """Write the letters of records that have just become ARCHIVING; each is archived when its letter is on disk."""
        for dead in ranges:
            for first in range(dead.first_offset, dead.last_offset + 1, _LETTERS_PER_BATCH):
                last = min(first + _LETTERS_PER_BATCH - 1, dead.last_offset)
                self._bury_one(live, dead._replace(first_offset=first, last_offset=last), settings, tries)

    def resume(
        self, live: LiveSharePartition, ranges: Sequence[DeadLetterRange], settings: ShareSettings, tries: int = 0
    ) -> None:
        """Go on after a crash: some of the letters may have been written."""

        def bury_the_rest(written: set[int]) -> None:
            for dead in ranges:
                for offset in range(dead.first_offset, dead.last_offset + 1):
                    if offset in written:
                        live.finish_archiving(offset, offset)
            self.bury(live, without(ranges, written), settings, tries)

        try:
            target = self._target(live, settings)
        except KafkaError as error:
            self._later(live, self.resume, ranges, tries, error)
            return
        if target is None:
            bury_the_rest(set())
        elif isinstance(target, PartitionElsewhere):

            def looked(written: set[int] | None) -> None:
                if written is None:
                    self._later(live, self.resume, ranges, tries, f"broker {target.node_id} cannot be asked for them")
                elif not live.is_closed:
                    bury_the_rest(written)

            self._elsewhere.search(target, _origin(live), looked)
        else:

            def failed(error: StorageError | KafkaError) -> None:
                if not live.is_closed:
                    self._later(live, self.resume, ranges, tries, error)

            _WrittenLetters(_origin(live), target, self._world, bury_the_rest, failed).search()

    def _bury_one(self, live: LiveSharePartition, dead: DeadLetterRange, settings: ShareSettings, tries: int) -> None:
        try:
            target = self._target(live, settings)
        except KafkaError as error:
            self._later(live, self._bury_one, dead, tries, error)
            return
        if target is None:
            self.failures[live.group_id] += 1
            live.finish_archiving(dead.first_offset, dead.last_offset)
            return
        copies: Sequence[Record] = ()
        if settings.dead_letter_copies_record and dead.cause is not DeadLetterCause.UNREADABLE:
            try:
                copies = live.readable_records(dead.first_offset, dead.last_offset)
            except NotInMemory:
                live.when_warm(partial(self._bury_one, live, dead, settings, tries))
                return
        made = letters(_origin(live), dead, copies, self._world.now_ms())
        if isinstance(target, PartitionElsewhere):
            self._send(live, target, made, dead, tries)
            return
        try:
            self._write(live, target, made, dead, tries)
        except (StorageError, KafkaError) as error:
            if isinstance(error, StorageError) or error.retriable:
                self._later(live, self._bury_one, dead, tries, error)
                return
            log.error("the dead letters of %r were not written: %s", live.group_id, error)
            self.failures[live.group_id] += 1
            live.finish_archiving(dead.first_offset, dead.last_offset)

    def _write(
        self, live: LiveSharePartition, target: Partition, made: Sequence[Letter], dead: DeadLetterRange, tries: int
    ) -> None:
        appended = target.append_internal(build_batch(made), self._world.now_ms())
        self.requests[live.group_id] += 1
        self.records[live.group_id] += len(made)

        def written(failure: StorageError | None) -> None:
            if failure is None:
                live.finish_archiving(dead.first_offset, dead.last_offset)
            elif self._durability.can_lose_appends:  # elsewhere a failure stops the broker
                self._later(live, self.resume, [dead], tries, failure)

        self._durability.when_durable([(target.log, appended.position)], written)

    def _send(
        self,
        live: LiveSharePartition,
        target: PartitionElsewhere,
        made: Sequence[Letter],
        dead: DeadLetterRange,
        tries: int,
    ) -> None:
        self.requests[live.group_id] += 1
        leader = f"{target.topic.name}-{target.partition} on broker {target.node_id}"

        def answered(delivery: Delivery, code: ErrorCode) -> None:
            if delivery is Delivery.NOT_WRITTEN:
                self._later(live, self._bury_one, dead, tries, f"{leader} has not taken them: {code}")
            elif delivery is Delivery.UNKNOWN:
                self._later(live, self.resume, [dead], tries, f"{leader} may have written them or not: {code}")
            else:
                if delivery is Delivery.WRITTEN:
                    self.records[live.group_id] += len(made)
                else:
                    log.error(
                        "the dead letters of %r were not written: %s refuses them: %s", live.group_id, leader, code
                    )
                    self.failures[live.group_id] += 1
                live.finish_archiving(dead.first_offset, dead.last_offset)

        self._elsewhere.write(target, bytes(build_batch(made)), answered)

    def _later(
        self,
        live: LiveSharePartition,
        work: Callable[[LiveSharePartition, T, ShareSettings, int], None],
        dead: T,
        tries: int,
        why: object,
    ) -> None:
        """Try again what was refused for now, unless the window is gone by then."""
        self.failures[live.group_id] += 1
        now = self._world.monotonic()
        if now - self._complained.get(live.group_id, -math.inf) >= _LONGEST_RETRY_SECONDS:
            self._complained[live.group_id] = now
            log.warning("the dead letters of %r are tried again: %s", live.group_id, why)

        def again() -> None:
            if not live.is_closed:
                work(live, dead, live.settings(), tries + 1)

        self._world.call_later(min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(tries, 10)), again)

    def _target(self, live: LiveSharePartition, settings: ShareSettings) -> Partition | PartitionElsewhere | None:
        """The partition that takes a window's letters, or None (and a word in the log) if there is none.

        Raises KafkaError if that cannot be known for now.
        """
        name = settings.dead_letter_topic
        prefix = self._configs.dead_letter_prefix
        if name.startswith("__") or not name.startswith(prefix):
            log.error("the dead-letter topic %r of %r does not begin with %r", name, live.group_id, prefix)
            return None
        authority = settings.dead_letter_authority
        if not self._gate.allows_copying(authority, live.partition.topic.name, name):
            log.error(
                "%s may not copy records from %r to %r, so %s has no dead letters: name the topic again as a user with "
                "READ on the one and WRITE on the other",
                repr(authority) if authority else "nobody is known who named the dead-letter topic, and nobody",
                live.partition.topic.name,
                name,
                live.group_id,
            )
            return None
        topic = self._cluster.find_topic(name)
        if topic is None and self._configs.dead_letter_auto_create:
            topic = self._create(name)
        if topic is None or topic.configs.get(ENABLE_CONFIG) != "true":
            log.error("the dead-letter topic %r of %r is missing, or lacks %s=true", name, live.group_id, ENABLE_CONFIG)
            return None
        index = live.key[2] % topic.partition_count
        node_id = self._cluster.leader_elsewhere(name, index)
        return topic.hosted(index) if node_id is None else PartitionElsewhere(node_id, topic, index)

    def _create(self, name: str) -> Topic | None:
        try:
            check_name(name)
            return self._topics.create(name, self._config.num_partitions, {ENABLE_CONFIG: "true"})
        except TopicAlreadyExists as error:  # another broker was faster, and this one has not heard of it
            raise LeaderNotAvailable(str(error)) from error
        except KafkaError as error:
            if error.retriable:
                raise
            log.error("the dead-letter topic %r cannot be created: %s", name, error)
            return None


class _WrittenLetters:
    """Finds the offsets of a window whose letters are among the latest of its dead-letter partition."""

    def __init__(
        self,
        origin: Origin,
        target: Partition,
        world: World,
        then: Callable[[set[int]], None],
        failed: Callable[[StorageError | KafkaError], None],
    ) -> None:
        self._origin = origin
        self._target = target
        self._then = then
        self._failed = failed
        self._reader = LogReader(target.log, world, self.search)
        self._offset = target.log.log_end_offset - LOOK_BACK_OFFSETS
        self._found: set[int] = set()

    def search(self) -> None:
        """Look until all is seen, or until a thread has to read first."""
        target_log = self._target.log
        self._offset = max(self._offset, target_log.log_start_offset)
        while self._offset < target_log.high_watermark:
            try:
                data = self._reader.read(self._offset, _READ_BYTES).read()
            except NotInMemory:
                return
            except (StorageError, KafkaError) as error:
                self._failed(error)
                return
            if not self._look_at(data):
                break
        self._then(self._found)

    def _look_at(self, data: bytes) -> bool:
        begin = self._offset
        for position, header in iter_headers(data):
            self._offset = header.next_offset
            try:
                self._found |= buried_offsets(self._origin, iter_records(data, position))
            except CorruptBatch as error:
                log.error("letters of %s at offset %d are unreadable: %s", self._target.topic.name, begin, error)
        return self._offset > begin


def _origin(live: LiveSharePartition) -> Origin:
    return Origin(live.group_id, live.partition.topic.name, live.key[2])
