"""A transaction coordinator with a log in memory: what the shell does, without the shell.

`Coordinator.do` appends the records of a command to `log`, replays them, notes the markers that were asked for and
answers with the reply. `finish` writes all markers. `crash` throws the shard away and replays the log into a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects
from penstock.transactions.metadata import TopicPartition, TransactionMetadata, TransactionVersion
from penstock.transactions.shard import AddPartitions, TransactionSettings, TransactionShard, WriteMarkers
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

TV_0 = TransactionVersion.TV_0
TV_2 = TransactionVersion.TV_2


class Coordinator:
    def __init__(self, **settings: object) -> None:
        settings.setdefault("concurrent_wait_ms", 0)
        self.settings = replace(TransactionSettings(), **settings)  # type: ignore[arg-type]
        self.now_ms = 1_000_000
        self.log: list[CoordinatorRecord] = []
        self.to_mark: list[WriteMarkers] = []
        self.marked: list[tuple[TopicPartition, int, int, bool]] = []
        self.replies: dict[int, object] = {}
        self._producer_ids = 999
        self._tokens = 0
        self.shard = self._new_shard()

    def _new_shard(self, *, ends_sessions: bool = False) -> TransactionShard:
        return TransactionShard(
            coordinator_epoch=0,
            settings=self.settings,
            new_producer_id=self._new_producer_id,
            ends_sessions=ends_sessions,
        )

    def _new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def do(self, effects: Effects) -> Effects:
        self.log.extend(effects.records)
        for key, value in effects.records:
            self.shard.replay(key, value)
        self.to_mark.extend(action for action in effects.actions if isinstance(action, WriteMarkers))
        effects.send()
        return effects

    def crash(self, *, power_was_lost: bool = False) -> None:
        self.to_mark.clear()
        self.shard = self._new_shard(ends_sessions=power_was_lost)
        for key, value in self.log:
            self.shard.replay(key, value)
        self.do(self.shard.loaded(self.now_ms))

    def finish(self) -> None:
        """Write every marker that was asked for, and let the coordinator complete."""
        while self.to_mark:
            markers = self.to_mark.pop(0)
            for partition in markers.partitions:
                self.marked.append((partition, markers.producer_id, markers.producer_epoch, markers.commit))
            self.do(self.shard.markers_written(markers, markers.partitions, self.now_ms))

    def tick(self) -> None:
        self.do(self.shard.tick(self.now_ms))

    # --- requests ---

    def respond(self) -> tuple[int, Callable[[object], None]]:
        """A token, and the function that keeps the reply under it."""
        self._tokens += 1
        return self._tokens, partial(self.replies.__setitem__, self._tokens)

    def init(
        self,
        transactional_id: str | None = "t",
        *,
        timeout_ms: int = 60_000,
        pid: int = -1,
        epoch: int = -1,
        version: int = 5,
    ) -> tuple[int, int, ErrorCode]:
        token, respond = self.respond()
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=pid,
            producer_epoch=epoch,
        )
        self.do(self.shard.init_producer_id(respond, RequestContext(self.now_ms, version), request))
        response = self.replies[token]
        assert isinstance(response, m.InitProducerIdResponse)
        return response.producer_id, response.producer_epoch, ErrorCode(response.error_code)

    def add(
        self,
        pid: int,
        epoch: int,
        *partitions: TopicPartition,
        transactional_id: str = "t",
        version: TransactionVersion = TV_2,
    ) -> ErrorCode | None:
        """The answer, or None if the addition waits."""
        token, respond = self.respond()
        add = AddPartitions(transactional_id, pid, epoch, frozenset(partitions or {("a", 0)}), version)
        self.do(self.shard.add_partitions(respond, self.now_ms, add))
        response = self.replies.get(token)
        assert response is None or isinstance(response, ErrorCode)
        return response

    def end(
        self, pid: int, epoch: int, *, commit: bool, version: int = 5, transactional_id: str = "t"
    ) -> tuple[int, int, ErrorCode]:
        token, respond = self.respond()
        request = m.EndTxnRequest(
            transactional_id=transactional_id, producer_id=pid, producer_epoch=epoch, committed=commit
        )
        self.do(self.shard.end_txn(respond, RequestContext(self.now_ms, version), request))
        response = self.replies[token]
        assert isinstance(response, m.EndTxnResponse)
        return response.producer_id, response.producer_epoch, ErrorCode(response.error_code)

    def verify(self, pid: int, epoch: int, partition: TopicPartition, transactional_id: str = "t") -> ErrorCode:
        add = AddPartitions(transactional_id, pid, epoch, frozenset({partition}), TV_0)
        return self.shard.verify(add)[partition]

    def state(self) -> TransactionState:
        return self.entry.state

    @property
    def entry(self) -> TransactionMetadata:
        meta = self.shard.metadata("t")
        assert meta is not None
        return meta
