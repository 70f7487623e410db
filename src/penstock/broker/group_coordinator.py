"""The group coordinator: its shards over `__consumer_offsets`, their view of the topics, metrics, a view for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.broker.coordinator_metrics import shard_metrics
from penstock.broker.metrics import Metric
from penstock.broker.topics import OFFSETS_TOPIC, Topic
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerState
from penstock.groups.settings import GroupSettings, MigrationPolicy
from penstock.groups.shard import GroupShard
from penstock.groups.share.group import ShareGroupState
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.groups.timeline import Timeline
from penstock.wire.errors import ErrorCode, NotCoordinator

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import Configs
    from penstock.broker.state_topic import MakeTopic
    from penstock.broker.world import SteadyTime

Handle = ShardHandle[GroupShard]
ShareAction = InitializeShareState | DeleteShareState

_METRICS = "kafka_server_group_coordinator_metrics_"
_STATES: dict[str, type[Enum]] = {"classic": ClassicState, "consumer": ConsumerState, "share": ShareGroupState}


class GroupTopics:
    """The broker's topics as the group coordinator sees them (`penstock.groups.settings.TopicsView`)."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._version = 0
        cluster.on_topics_changed.append(self._changed)

    def _changed(self) -> None:
        self._version += 1

    @property
    def version(self) -> int:
        return self._version

    def topic_id(self, name: str) -> bytes | None:
        topic = self._cluster.find_topic(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int:
        topic = self._cluster.find_topic(name)
        return 0 if topic is None else topic.partition_count

    def topic_names(self) -> Iterable[str]:
        return [topic.name for topic in self._cluster.topics()]


class GroupCoordinator:
    def __init__(
        self,
        configs: Configs,
        cluster: ClusterView,
        make_topic: MakeTopic,
        time: SteadyTime,
        new_id: Callable[[], bytes],
        on_share_action: Callable[[Handle, ShareAction], None],
    ) -> None:
        """`on_share_action` has the share coordinator carry out what a group's shard requests of it."""
        self._configs = configs
        self._config = configs.broker
        self._cluster = cluster
        self.time = time
        """What its timeouts are counted with: handed to its shards with every command."""
        self._new_id = new_id
        self._on_share_action = on_share_action
        self.timeline = Timeline()
        self.settings = GroupSettings(overrides=configs.group_overrides)
        self._read_settings()
        self._group_topics = GroupTopics(cluster)
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            self.time,
            make_topic(
                OFFSETS_TOPIC,
                self._config.offsets_topic_num_partitions,
                self._config.offsets_topic_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(self._config.offsets_topic_segment_bytes),
                },
            ),
            self._make_shard,
            self._on_action,
        )

    def _read_settings(self) -> None:
        """The broker's configs, which may change while it runs; a group's own are looked up when they are needed."""
        config, settings = self._config, self.settings
        settings.group_min_session_timeout_ms = config.group_min_session_timeout_ms
        settings.group_max_session_timeout_ms = config.group_max_session_timeout_ms
        settings.group_initial_rebalance_delay_ms = config.group_initial_rebalance_delay_ms
        settings.group_max_size = config.group_max_size
        settings.group_consumer_session_timeout_ms = config.group_consumer_session_timeout_ms
        settings.group_consumer_heartbeat_interval_ms = config.group_consumer_heartbeat_interval_ms
        settings.group_consumer_max_size = config.group_consumer_max_size
        settings.group_consumer_assignors = tuple(config.group_consumer_assignors)
        settings.group_consumer_migration_policy = MigrationPolicy(config.group_consumer_migration_policy.lower())
        settings.group_consumer_regex_refresh_interval_ms = config.group_consumer_regex_refresh_interval_ms
        settings.group_consumer_assignment_interval_ms = config.group_consumer_assignment_interval_ms
        settings.group_share_session_timeout_ms = config.group_share_session_timeout_ms
        settings.group_share_heartbeat_interval_ms = config.group_share_heartbeat_interval_ms
        settings.group_share_max_size = config.group_share_max_size
        settings.offset_metadata_max_bytes = config.offset_metadata_max_bytes
        settings.offsets_retention_minutes = config.offsets_retention_minutes
        settings.offsets_retention_check_interval_ms = config.offsets_retention_check_interval_ms

    def _make_shard(self, index: int) -> GroupShard:
        def new_uuid() -> str:
            return str(UUID(bytes=self._new_id()))

        return GroupShard(self.settings, self._group_topics, new_uuid, self.timeline)

    def start(self) -> None:
        self._configs.listeners.append(self._read_settings)
        self.runtime.start()

    def stop(self) -> None:
        for handle in self.runtime.loaded_handles():
            handle.shard.unload(ErrorCode.NOT_COORDINATOR).send()
        self.runtime.stop()

    def find(self, group_id: str) -> Handle:
        """The shard that is responsible for a group. Raises COORDINATOR_LOAD_IN_PROGRESS until it is loaded.

        NOT_COORDINATOR before the internal topic exists: FindCoordinator, with which every client begins, creates it.
        """
        if self._cluster.find_topic(OFFSETS_TOPIC) is None:
            raise NotCoordinator
        return self.runtime.find(group_id)

    def topic_deleted(self, topic: Topic) -> None:
        for handle in self.runtime.loaded_handles():
            effects = handle.shard.topics_deleted({topic.name: topic.topic_id}, self.time.now_ms())
            if effects.records:
                handle.run(effects)

    def view(self, query: Mapping[str, str]) -> object:
        """What a group waits for: `penstock group describe` explains a stuck group with it."""
        group_id = query.get("group")
        now_ms = self.time.now_ms()
        handles = self.runtime.loaded_handles()
        if group_id is None:
            return sorted(listed.group_id for handle in handles for listed in handle.shard.list_groups())
        return [
            {
                "memberId": wait.member_id,
                "clientId": wait.client_id,
                "host": wait.client_host,
                "what": wait.what,
                "forMs": None if wait.since_ms is None else max(0, now_ms - wait.since_ms),
                "leftMs": None if wait.until_ms is None else max(0, wait.until_ms - now_ms),
            }
            for handle in handles
            for wait in handle.shard.waits_of(group_id)
        ]

    def metrics(self) -> Iterator[Metric | None]:
        """Groups by protocol and state, and offsets, under the names of Kafka's group coordinator."""
        types: Counter[str] = Counter()
        rebalances: Counter[str] = Counter()
        states: Counter[tuple[str, str]] = Counter()
        offsets = 0
        for handle in self.runtime.loaded_handles():
            offsets += len(handle.shard.state.offsets)
            rebalances += handle.shard.state.rebalances
            for listed in handle.shard.list_groups():
                types[listed.group_type] += 1
                states[listed.group_type, listed.group_state] += 1
            yield None
        count = Metric(_METRICS + "group_count")
        for kind in _STATES:
            count.add(types[kind], kind)
        yield count
        for kind, kinds_states in _STATES.items():
            by_state = Metric(f"{_METRICS}{kind}_group_count")
            for state in kinds_states:
                by_state.add(states[kind, state.value], state.value)
            yield by_state
        for kind, prefix in (("classic", ""), ("consumer", "consumer_group_"), ("share", "share_group_")):
            name = f"{_METRICS}{prefix}{'group_completed_' if kind == 'classic' else ''}rebalance_count"
            yield Metric(name).add(rebalances[kind])
        yield from shard_metrics("group_coordinator", self.runtime)
        yield Metric("kafka_coordinator_group_groupmetadatamanager_numoffsets").add(offsets)
        yield Metric("penstock_group_coordinator_skipped_records_total").add(self.runtime.skipped_records)

    def _on_action(self, handle: Handle, action: object) -> None:
        assert isinstance(action, InitializeShareState | DeleteShareState)
        self._on_share_action(handle, action)
