"""Compaction in the broker: the log cleaner joined to the event loop, the topics and the metrics.

The work is done by the storage (the embedded engine has a process of its own for it); here are only its timer and what
it tells of itself. A cleaner that silently stopped is what fills disks, so the time of its last look and of its last
success, and for how long work has waited, stand beside how dirty each log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.storage.compaction import CleanerConfig
from penstock.storage.contract import StorageError

if TYPE_CHECKING:
    from penstock.broker.config import Configs
    from penstock.broker.topics import Topic
    from penstock.broker.world import World
    from penstock.storage.compaction import LogStatus
    from penstock.storage.contract import Storage


_LOG = "penstock_log_cleaner_"


class Cleaning:
    def __init__(self, storage: Storage, configs: Configs, world: World) -> None:
        self._broker_config = configs.broker
        self._world = world
        self._compactor = storage.compactor(self._config(), lambda: world.call_soon_threadsafe(self.poll))
        self._is_stopped = False
        configs.listeners.append(lambda: self._compactor.update_config(self._config()))

    def poll(self) -> None:
        """Take the next step; called by a timer and whenever there is progress."""
        if not self._is_stopped:
            self._compactor.poll(self._world.now_ms())

    def stop(self) -> None:
        self._is_stopped = True
        self._compactor.close()

    def _config(self) -> CleanerConfig:
        config = self._broker_config
        return CleanerConfig(
            enable=config.log_cleaner_enable,
            dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
            io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
            backoff_ms=config.log_cleaner_backoff_ms,
        )

    def waiting_seconds(self) -> float:
        """For how long a log has been worth cleaning while nothing was cleaned."""
        return self._compactor.waiting_ms(self._world.now_ms()) / 1000

    def topic_deleted(self, topic: Topic) -> None:
        try:
            for partition in topic.hosted_partitions():
                self._compactor.forget(partition.log)
        except StorageError:
            return  # Only the checkpoint could not be written: a log of the same name is then cleaned from there on.

    def view(self, _: dict[str, str]) -> object:
        """What `penstock cleaner` shows."""
        status = self._compactor.status(self._world.now_ms())
        return {
            "enabled": self._broker_config.log_cleaner_enable,
            "running": status.running,
            "rounds": status.rounds,
            "failures": status.failures,
            "lastLookMs": status.last_look_ms,
            "lastSuccessMs": status.last_success_ms,
            "lastError": status.last_error,
            "waitingMs": self._compactor.waiting_ms(self._world.now_ms()),
            "bytesRead": status.bytes_read,
            "bytesWritten": status.bytes_written,
            "logs": [
                {
                    "topic": log.topic,
                    "partition": log.partition,
                    "cleanBytes": log.clean_bytes,
                    "dirtyBytes": log.dirty_bytes,
                    "dirtyRatio": log.dirty_ratio,
                    "lastSuccessMs": log.last_success_ms,
                    "lastError": log.last_error,
                    "uncleanable": log.uncleanable,
                    "inProgress": log.in_progress,
                }
                for log in status.logs
            ],
        }

    def metrics(self) -> Iterator[Metric]:
        now_ms = self._world.now_ms()
        status = self._compactor.status(now_ms)
        look_ms = status.last_look_ms
        yield Metric("kafka_log_logcleanermanager_time_since_last_run_ms").add(
            now_ms - look_ms if look_ms is not None else -1
        )
        yield Metric("kafka_log_logcleanermanager_max_dirty_percent").add(round(100 * status.dirtiest_ratio))
        yield Metric("kafka_log_logcleanermanager_uncleanable_partitions_count").add(status.uncleanable_logs)
        yield Metric("penstock_log_cleaner_rounds_total").add(status.rounds)
        yield Metric("penstock_log_cleaner_failures_total").add(status.failures)
        yield Metric("penstock_log_cleaner_read_bytes_total").add(status.bytes_read)
        yield Metric("penstock_log_cleaner_written_bytes_total").add(status.bytes_written)
        yield from _by_topic(status.logs)
        if self._broker_config.penstock_metrics_partitions:
            yield from _by_partition(status.logs)


def _by_topic(logs: Iterable[LogStatus]) -> Iterator[Metric]:
    success, dirty, ratio = Metric(f"{_LOG}last_success_ms"), Metric(f"{_LOG}dirty_bytes"), Metric(f"{_LOG}dirty_ratio")
    topics: dict[str, list[LogStatus]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(log)
    for topic, its_logs in topics.items():
        dirty.add(sum(log.dirty_bytes for log in its_logs), topic)
        ratio.add(max(log.dirty_ratio for log in its_logs), topic)
        successes = [log.last_success_ms for log in its_logs if log.last_success_ms is not None]
        if successes:
            success.add(max(successes), topic)
    yield from (success, dirty, ratio)


def _by_partition(logs: Iterable[LogStatus]) -> Iterator[Metric]:
    success, dirty, ratio = (
        Metric(f"{_LOG}partition_{name}") for name in ("last_success_ms", "dirty_bytes", "dirty_ratio")
    )
    for log in logs:
        labels = (log.topic, str(log.partition))
        dirty.add(log.dirty_bytes, *labels)
        ratio.add(log.dirty_ratio, *labels)
        if log.last_success_ms is not None:
            success.add(log.last_success_ms, *labels)
    yield from (success, dirty, ratio)
