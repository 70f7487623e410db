"""The transactions of the sink: begun in tasks, ended on the driver.

A task writes its rows in a transaction of its own and leaves it open: `TaskProducer.detach` says under which producer
id and epoch. The driver, once all tasks are done, ends all of them. What makes this exactly once is one *decision* per
micro-batch, written by the driver before it ends the first:

* The decision is an offset commit of the sink's own group (its name is the sink's prefix): the number of the batch, and
  which transactions belong to it. With it travel, in the same transaction, the offsets of the input, if the source is
  a topic too.
* A driver that died after the decision is replayed by Spark. The tasks find the decision, end the transactions that it
  names (ending one twice is harmless), and write nothing.
* A driver that died before it: the tasks begin again under the same transactional ids, which aborts what was left open.
* A zombie, a task or a driver that was thought dead, is fenced: its transactional id has a new epoch by then. A driver
  first takes its transactional id, then reads the decision, then decides; so two drivers never decide one batch.

The one limit is the transaction timeout: a driver that dies between the decision and the end of the transactions must
be back before the broker aborts them (15 minutes by default). If it is not, that is an error with the batch's number,
never silence.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.client.cluster import TRANSACTION, Cluster
from penstock.client.errors import UsageError, check
from penstock.client.offsets import fetch_committed
from penstock.client.producer import Producer
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.client.versions import END_TXN_LAST_OF_OLD_TRANSACTIONS
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionalIdNotFound,
)

_METADATA_BYTES = 4096  # offset.metadata.max.bytes of a broker as shipped
_GONE = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState, TransactionalIdNotFound)


class LostBatch(Exception):
    """A batch was decided, but the broker had aborted some of its transactions by then."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a task wrote and left open."""

    task: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The last micro-batch of a sink that was decided; batch -1 if there was none."""

    batch: int = -1
    transactions: tuple[OpenTransaction, ...] = ()

    def encode(self) -> str:
        entries = [[one.task, one.producer_id, one.epoch] for one in self.transactions]
        packed = base64.b85encode(zlib.compress(json.dumps(entries, separators=(",", ":")).encode(), 9)).decode()
        text = f"{self.batch} {packed}"
        if len(text) > _METADATA_BYTES:
            raise UsageError(
                f"{len(entries)} tasks write to the sink at once, which is too many. "
                "Put coalesce(100) before writeStream"
            )
        return text

    @classmethod
    def decode(cls, text: str) -> Decision:
        batch, _, packed = text.partition(" ")
        entries = json.loads(zlib.decompress(base64.b85decode(packed)))
        return cls(int(batch), tuple(OpenTransaction(*entry) for entry in entries))


class Ended(Enum):
    """What became of the transactions of a decision."""

    ALL = "all are committed"
    NONE = "none is, and none can be"


def transactional_id(prefix: str, task: int | str) -> str:
    return f"{prefix}-{task}"


class TaskProducer(Producer):
    """A transactional producer whose transaction outlives it."""

    async def detach(self) -> tuple[int, int]:
        """Deliver everything, then disconnect and leave the transaction open: (producer id, epoch) to end it with."""
        transactional = self._require_transactional()
        await self.flush()
        transactional.require("commit")  # a record may have been lost on the way
        identity = transactional.producer_id, transactional.epoch
        self._closed = True
        assert self._sender is not None
        await self._sender.close()
        await self._cluster.close()
        return identity


async def read_decision(cluster: Cluster, prefix: str) -> Decision:
    """The last decision, waiting for one that is being written."""
    newest = Decision()
    found = await fetch_committed(cluster, prefix, None, require_stable=True)
    for committed in found.values():
        decision = Decision.decode(committed.metadata)
        if decision.batch > newest.batch:
            newest = decision
    return newest


async def decide(
    driver: Producer,
    prefix: str,
    decision: Decision,
    place: TopicPartition,
    inputs: Mapping[TopicPartition, int],
    input_group: str,
) -> None:
    """Write the decision, and the offsets of the input, in one transaction. `place` is any partition there is."""
    driver.begin_transaction()
    await driver.send_offsets_to_transaction(
        {place: OffsetAndMetadata(max(decision.batch, 0), decision.encode())}, prefix
    )
    if inputs and input_group:
        await driver.send_offsets_to_transaction(inputs, input_group)
    await driver.commit_transaction()


async def end_all(cluster: Cluster, prefix: str, transactions: Iterable[OpenTransaction], *, commit: bool) -> Ended:
    """End transactions that tasks left open. All of them count as one: some without the others is an error."""
    done: list[int] = []
    gone: list[int] = []
    for one in transactions:
        ended = await end(cluster, transactional_id(prefix, one.task), one, commit=commit)
        (done if ended else gone).append(one.task)
        if gone and done and commit:
            raise LostBatch(
                f"the transactions of sink {prefix!r} were decided, but only some could be committed: those of tasks "
                f"{done} are, those of tasks {gone} had been aborted. Was the driver away for longer than the "
                "transaction timeout?"
            )
    return Ended.NONE if gone else Ended.ALL


async def end(cluster: Cluster, name: str, one: OpenTransaction, *, commit: bool) -> bool:
    """End one transaction; False when it is another producer's by now, or was aborted."""
    node = await cluster.coordinator(TRANSACTION, name)
    features = (await cluster.connection(node, "coordinator")).features
    renews = features.finalized_epoch >= 0 and features.finalized.get("transaction.version", 0) >= 2
    request = m.EndTxnRequest(
        transactional_id=name, producer_id=one.producer_id, producer_epoch=one.epoch, committed=commit
    )

    def check_answer(answer: m.EndTxnResponse) -> None:
        check(answer.error_code, about=f"the transaction of {name!r}")

    try:
        await cluster.call_coordinator(
            TRANSACTION,
            name,
            request,
            m.EndTxnResponse,
            check_answer=check_answer,
            at_most=NEWEST if renews else END_TXN_LAST_OF_OLD_TRANSACTIONS,
        )
    except _GONE:
        return False
    except KafkaError as error:
        raise type(error)(f"the transaction of {name!r} was not ended: {error}") from error
    return True
