"""The identity of a producer: a producer id and an epoch, which make its retries recognizable (KIP-98, KIP-360)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.cluster import Cluster
from penstock.client.errors import check
from penstock.client.types import TopicPartition
from penstock.client.versions import INIT_PRODUCER_ID_LAST_KNOWN
from penstock.wire import messages as m

_LAST_EPOCH = 32766


class ProducerIdentity:
    """The identity of an idempotent producer. `TransactionalIdentity` adds transactions to it."""

    is_transactional = False
    writing_adds_partitions = False

    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        self.producer_id = -1
        self.epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms

    @property
    def is_ready(self) -> bool:
        return self.producer_id >= 0

    async def prepare(self) -> None:
        """Get a producer id, unless there is one."""
        if self.is_ready:
            return
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        answer = await self._cluster.call(
            request,
            m.InitProducerIdResponse,
            check_answer=lambda answer: check(answer.error_code, about="a producer id"),
            timeout_ms=self._timeout_ms,
            at_most=INIT_PRODUCER_ID_LAST_KNOWN,
        )
        self.producer_id = answer.producer_id
        self.epoch = answer.producer_epoch

    def raise_epoch(self) -> None:
        """Start numbering over. An exhausted epoch asks for a new id."""
        if self.epoch >= _LAST_EPOCH:
            self.producer_id = self.epoch = -1
        else:
            self.epoch += 1

    def may_write(self, tp: TopicPartition) -> bool:
        return True

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the coordinator of partitions that are about to be written (transactions only)."""

    def fail(self, error: Exception) -> None:
        """A batch was lost for good (matters to transactions only)."""

    @property
    def failure(self) -> Exception | None:
        """Why nothing may be sent until the transaction is aborted, if that is so."""
        return None
