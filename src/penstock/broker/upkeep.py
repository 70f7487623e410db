"""What a broker does by the clock: retention, expiry of producers, compaction, checkpoints, bounds on waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.cold_reads import when_fetched
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

    def start(self) -> None:
        config = self._config
        self.every("waiting", _SWEEP_SECONDS, self._sweep)
        self.every("checkpoints", _CHECKPOINT_SECONDS, self._storage.save_progress)
        self.every("compaction", _CLEAN_SECONDS, self._clean)
        self.every("retention", config.log_retention_check_interval_ms / 1000, self.apply_retention)
        self.every("expiry of producers", config.producer_id_expiration_check_interval_ms / 1000, self.expire_producers)

    def every(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Do something again and again, whether it fails or not."""

        def run() -> None:
            guard.attempt(f"the timer of {name}", work)
            if name in self._timers:
                self._timers[name] = self._world.call_later(seconds, run)

        self._timers[name] = self._world.call_later(seconds, run)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def apply_retention(self) -> None:
        for partition in self._cluster.hosted_partitions():
            guard.attempt(f"retention of {partition.topic.name}-{partition.index}", self._retain, partition)

    def _retain(self, partition: Partition) -> None:
        topic = partition.topic

        def fetched(failure: BaseException | None) -> None:
            if failure is not None:
                log.error("retention of %s-%d failed: %s", topic.name, partition.index, failure)
            elif self._timers and self._cluster.find_topic(topic.name) is topic:
                guard.attempt(f"retention of {topic.name}-{partition.index}", self._retain, partition)

        try:
            if partition.log.apply_retention(self._world.now_ms()):
                log.info("retention deleted segments of %s-%d", topic.name, partition.index)
        except ColdRead as cold:
            when_fetched(self._world, cold, fetched)

    def expire_producers(self) -> None:
        """Forget the idempotent producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._world.now_ms()
        for log_ in self._storage.logs():
            what = f"expiry of the producers of {log_.topic}-{log_.partition}"
            guard.attempt(what, log_.expire_producers, now_ms)
