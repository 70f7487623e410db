"""What a broker does by the clock: retention, expiry of producers, compaction, checkpoints, bounds on waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.cold_reads import when_fetched
from penstock.broker.vitals import COMPACTION
from penstock.storage.contract import ColdRead

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.topics import Partition
    from penstock.broker.world import Timer, World
    from penstock.storage.contract import Storage

log = logging.getLogger("penstock.broker")

_SWEEP_SECONDS = 1.0
_CHECKPOINT_SECONDS = 60.0
_CLEAN_SECONDS = 1.0


_RETENTION = "retention"


class _Round:
    """A round of retention: over when each partition is, of which some wait for the disk first."""

    def __init__(self, ended_well: Callable[[], None]) -> None:
        self._ended_well = ended_well
        self._under_way = 1
        self.failed = 0

    def begin(self) -> None:
        self._under_way += 1

    def end(self, *, is_well: bool = True) -> None:
        self.failed += not is_well
        self._under_way -= 1
        if not self._under_way and not self.failed:
            self._ended_well()


class Upkeep:
    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        storage: Storage,
        world: World,
        *,
        sweep: Callable[[], None],
        clean: Callable[[], None],
    ) -> None:
        """`sweep` enforces the bounds on waiting; `clean` takes the next step of compaction."""
        self._config = config
        self._cluster = cluster
        self._storage = storage
        self._world = world
        self._sweep = sweep
        self._clean = clean
        self._timers: dict[str, Timer] = {}
        self.deleted_segments = 0
        """By retention, since the start."""
        self._succeeded: dict[str, float] = {}
        """When each task last ended well; before the first time, when it was begun to be done."""

    def start(self) -> None:
        config = self._config
        self.every("bounds on waiting", _SWEEP_SECONDS, self._sweep)
        self.every("checkpoints", _CHECKPOINT_SECONDS, self._storage.save_progress)
        self.every(COMPACTION, _CLEAN_SECONDS, self._clean)
        self.every(
            _RETENTION, config.log_retention_check_interval_ms / 1000, self.apply_retention, tells_success_itself=True
        )
        self.every("expiry of producers", config.producer_id_expiration_check_interval_ms / 1000, self.expire_producers)

    def every(
        self, name: str, seconds: float, work: Callable[[], object], *, tells_success_itself: bool = False
    ) -> None:
        """Do something again and again, whether it fails or not.

        It has ended well when it returns, or when it calls `succeeded`, because some of it ends later.
        """

        def run() -> None:
            if guard.attempt(f"the timer of {name}", work) and not tells_success_itself:
                self.succeeded(name)
            if name in self._timers:
                self._timers[name] = self._world.call_later(seconds, run)

        self.succeeded(name)
        self._timers[name] = self._world.call_later(seconds, run)

    def succeeded(self, name: str) -> None:
        self._succeeded[name] = self._world.monotonic()

    def success_ages(self) -> dict[str, float]:
        """For how many seconds each task has not ended well: more than its interval is a sign of trouble."""
        now = self._world.monotonic()
        return {name: now - moment for name, moment in self._succeeded.items()}

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def apply_retention(self) -> int:
        """Delete what no longer is to be kept. Returns for how many partitions that failed, as far as is known yet."""
        round_ = _Round(lambda: self.succeeded(_RETENTION))
        for partition in self._cluster.hosted_partitions():
            round_.begin()
            self._retain(partition, round_)
        failed = round_.failed
        round_.end()
        return failed

    def _retain(self, partition: Partition, round_: _Round) -> None:
        topic = partition.topic
        what = f"retention of {topic.name}-{partition.index}"

        def fetched(failure: BaseException | None) -> None:
            if failure is not None:
                log.error("retention of %s-%d failed: %s", topic.name, partition.index, failure)
                round_.end(is_well=False)
            elif self._timers and self._cluster.find_topic(topic.name) is topic:
                self._retain(partition, round_)
            else:
                round_.end()

        def retain() -> None:
            try:
                deleted = partition.log.apply_retention(self._world.now_ms())
            except ColdRead as cold:
                round_.begin()
                when_fetched(self._world, cold, fetched)
                return
            if deleted:
                self.deleted_segments += deleted
                log.info("retention deleted segments of %s-%d", topic.name, partition.index)

        round_.end(is_well=guard.attempt(what, retain))

    def expire_producers(self) -> None:
        """Forget the idempotent producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._world.now_ms()
        for log_ in self._storage.logs():
            what = f"expiry of the producers of {log_.topic}-{log_.partition}"
            guard.attempt(what, log_.expire_producers, now_ms)
