"""The transaction coordinator: its shards over `__transaction_state`, and the commands that wait for the disk.

The rules are those of `penstock.transactions`; what is durable before what is in `transaction_durability`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.broker.coordinator_metrics import load_metrics
from penstock.broker.features import TRANSACTION_VERSION
from penstock.broker.metrics import Metric
from penstock.broker.topics import TRANSACTIONS_TOPIC
from penstock.broker.transaction_durability import AfterPowerCut, TransactionDurability
from penstock.broker.transaction_markers import TransactionMarkers
from penstock.broker.world import SteadyTime
from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Respond
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions, TransactionSettings, TransactionShard, WriteMarkers
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.durability import Durability
    from penstock.broker.features import Features
    from penstock.broker.marker_requests import MarkerRequests
    from penstock.broker.state_topic import MakeTopic
    from penstock.broker.world import World
    from penstock.groups.shard import GroupShard

log = logging.getLogger("penstock.transactions")

Handle = ShardHandle[TransactionShard]


class TransactionCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        features: Features,
        cluster: ClusterView,
        make_topic: MakeTopic,
        durability: Durability,
        world: World,
        *,
        new_producer_id: Callable[[], int],
        groups: Callable[[], CoordinatorRuntime[GroupShard]],
        marker_requests: MarkerRequests,
        is_deleted: Callable[[str, int], bool],
        may_have_lost_writes: bool,
        lost_writes_settled: Callable[[], None],
    ) -> None:
        """`is_deleted` confirms that a partition does not exist any more. `may_have_lost_writes`: since the last run;
        `lost_writes_settled` is called when all has followed from it."""
        self._features = features
        self._cluster = cluster
        self.time = SteadyTime(world)
        """What timeouts of transactions are counted with: handed to the shards with every command."""
        self._new_producer_id = new_producer_id
        self._may_have_lost_writes = may_have_lost_writes
        self._settings = TransactionSettings(
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            concurrent_wait_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
            server_version=TransactionVersion(features.level(TRANSACTION_VERSION)),
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            self.time,
            make_topic(
                TRANSACTIONS_TOPIC,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            ),
            self._make_shard,
            self._on_action,
            actions_wait=True,
        )
        self.markers = TransactionMarkers(groups, world)
        self._after_power_cut = AfterPowerCut(self.runtime, groups, cluster, self.markers, lost_writes_settled)
        self._ended: Counter[str] = Counter()
        self._order = TransactionDurability(
            cluster,
            durability,
            self.time,
            self.markers,
            marker_requests,
            is_deleted,
            self._after_power_cut.settle_if_possible,
        )

    def _make_shard(self, index: int) -> TransactionShard:
        partition = self._cluster.topic(TRANSACTIONS_TOPIC).find_open(index)
        return TransactionShard(
            coordinator_epoch=-1 if partition is None else partition.leader_epoch,
            settings=self._settings,
            new_producer_id=self._new_producer_id,
            ends_sessions=self._may_have_lost_writes,
        )

    def _on_action(self, handle: Handle, action: object) -> None:
        assert isinstance(action, WriteMarkers)
        self._ended["commit" if action.commit else "abort"] += 1
        self._order.write_markers(handle, action)

    def _features_changed(self) -> None:
        version = TransactionVersion(self._features.level(TRANSACTION_VERSION))
        self._settings = replace(self._settings, server_version=version)
        for handle in self.runtime.loaded_handles():
            handle.shard.use(self._settings)

    def start(self) -> None:
        self._features.listeners.append(self._features_changed)
        if self._may_have_lost_writes and self._cluster.find_topic(TRANSACTIONS_TOPIC) is not None:
            log.warning(
                "the machine went down, or the disk failed, while the broker ran: open transactions are aborted, and "
                "transactional producers are fenced and must be restarted"
            )
        self.runtime.start()
        self.time.call_soon(self._after_power_cut.settle_when_loaded)

    def stop(self) -> None:
        self._order.stop()
        self._after_power_cut.stop()
        self.runtime.stop()

    def metrics(self) -> Iterator[Metric | None]:
        states: Counter[TransactionState] = Counter()
        oldest_ms: int | None = None
        for handle in self.runtime.loaded_handles():
            in_shard, began_ms = handle.shard.summary()
            states += in_shard
            if began_ms is not None and (oldest_ms is None or began_ms < oldest_ms):
                oldest_ms = began_ms
            yield None
        transactions = Metric("penstock_transactional_ids")
        for state in TransactionState:
            transactions.add(states[state], state.label)
        yield transactions
        ended = Metric("penstock_transactions_ended_total")
        for outcome in ("commit", "abort"):
            ended.add(self._ended[outcome], outcome)
        yield ended
        yield from load_metrics("transaction_coordinator", self.runtime.loads)
        age_ms = 0 if oldest_ms is None else max(0, self.time.now_ms() - oldest_ms)
        yield Metric("penstock_transaction_oldest_open_seconds").add(age_ms / 1000)

    def find(self, transactional_id: str) -> Handle:
        """The shard that is responsible for a transactional id. Raises CoordinatorLoadInProgress until it is loaded."""
        return self.runtime.find(transactional_id)

    def verify(self, add: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether these partitions are part of the producer's open transaction."""
        try:
            return self.find(add.transactional_id).shard.verify(add)
        except KafkaError as error:
            return dict.fromkeys(add.partitions, error.code)

    def add_partitions(self, add: AddPartitions, done: Respond[ErrorCode]) -> None:
        """Add partitions to a transaction; `done` is called with the result, mostly at once."""
        try:
            handle = self.find(add.transactional_id)
        except KafkaError as error:
            done(error.code)
        else:
            self.add_to(handle, add, done)

    def add_to(self, handle: Handle, add: AddPartitions, done: Respond[ErrorCode]) -> None:
        """Add partitions to a transaction of this shard.

        Among several brokers the reply waits for the disk: a partition elsewhere must not keep a batch of which a power
        cut makes this coordinator forget, because nobody would look for it there.
        """
        if self._cluster.is_shared:
            add = replace(add, waits=True)

        def add_now(failure: Exception | None) -> None:
            if failure is not None:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                handle.run(handle.shard.add_partitions(done, self.time.now_ms(), add))

        self._order.when_it_may_begin(handle, add, add_now)

    def end_txn(self, respond: Respond[m.EndTxnResponse], context: RequestContext, request: m.EndTxnRequest) -> None:
        """Commit or abort. Raises KafkaError when no shard can be asked."""
        handle = self.find(request.transactional_id)

        def end(failure: Exception | None) -> None:
            if failure is not None:
                respond(m.EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                now = replace(context, now_ms=self.time.now_ms())
                handle.run(handle.shard.end_txn(respond, now, request))

        if request.committed:
            self._order.when_it_may_commit(handle, request.transactional_id, end)
        else:
            end(None)
