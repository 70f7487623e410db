"""Mutants: small, plausible faults of the broker, each applied by patching one function, and each to be found.

A mutant that no seed finds is a hole in the checks.
"""

from __future__ import annotations

from penstock.broker.durability import Durability
from penstock.broker.handlers import fetch
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.transaction_durability import AfterPowerCut, TransactionDurability
from penstock.broker.transaction_markers import TransactionMarkers
from penstock.client.sender import Sender
from penstock.coordination.runtime import CoordinatorRuntime
from penstock.log.producer_state import ProducerEntry, ProducerState
from penstock.transactions.shard import TransactionShard
from tests.simulation.mutant import Mutant
from tests.simulation.mutants_of_clusters import CLUSTERS
from tests.simulation.mutants_of_copying import CLOSED, COPYING, MIGRATION
from tests.simulation.mutants_of_files import FILES
from tests.simulation.mutants_of_groups import GROUPS, QUEUES, TRANSACTIONS
from tests.simulation.streams import PowerCuts, Streams, Transactions

MUTANTS = [
    Mutant(
        "missing-sync",
        "acks=all is answered before the records are on disk",
        Streams,
        Durability,
        "when_each_is_settled",
        "if not appends or not self.is_awaited:",
        "if True:",
    ),
    Mutant(
        "repeated-batch-accepted",
        "a batch that a producer repeats is appended again",
        Streams,
        ProducerState,
        "check",
        "entry = self.entries.get(header.producer_id)",
        "entry = None",
    ),
    Mutant(
        "repeated-batch-unknown",
        "a repeated batch is not recognised as one",
        Streams,
        ProducerEntry,
        "find_duplicate",
        "return metadata",
        "return None",
    ),
    Mutant(
        "isolation-ignored",
        "read_committed readers see records of open transactions",
        Transactions,
        fetch,
        "_read_partition",
        "min_one_batch=is_first, isolation=isolation",
        "min_one_batch=is_first, isolation=0",
    ),
    Mutant(
        "aborted-not-listed",
        "a fetch does not say which transactions were aborted",
        Transactions,
        fetch,
        "_read_partition",
        "in found.aborted or ()",
        "in ()",
    ),
    Mutant(
        "commit-before-its-records",
        "a commit is decided before the records of its transaction are on disk",
        PowerCuts,
        TransactionDurability,
        "when_it_may_commit",
        "if not behind:",
        "if True:",
    ),
    Mutant(
        "marker-before-its-outcome",
        "markers are written before the decision is on disk",
        PowerCuts,
        CoordinatorRuntime,
        "__init__",
        "self._actions_wait = actions_wait",
        "self._actions_wait = False",
        100,
    ),
    Mutant(
        "abort-marker-commits",
        "the marker of an aborted transaction says that it is committed",
        Transactions,
        TransactionMarkers,
        "append",
        "ControlType.COMMIT if markers.commit else ControlType.ABORT",
        "ControlType.COMMIT",
    ),
    Mutant(
        "first-marker-only",
        "one partition of a transaction gets a marker, the others none",
        Transactions,
        TransactionDurability,
        "write_markers",
        "markers.partitions)",
        "tuple(markers.partitions)[:1])",
    ),
    Mutant(
        "orphans-stay",
        "a transaction that a power cut has orphaned stays open for ever",
        PowerCuts,
        AfterPowerCut,
        "_abort_orphans",
        "",
        "",
        100,
    ),
    Mutant(
        "sessions-survive-power-cut",
        "producers in the middle of a transaction go on after a power cut",
        PowerCuts,
        TransactionShard,
        "_end_session",
        "",
        "",
        100,
    ),
    Mutant(
        "producer-id-twice",
        "two producers get the same producer id",
        Streams,
        ProducerIds,
        "next",
        "self._next += 1",
        "self._next = 1",
    ),
    Mutant(
        "batch-overtakes",
        "our own producer sends a batch although one before it found no connection",
        Streams,
        Sender,
        "_in_order",
        "if queue.follows_a_retry(batch):",
        "if False:",
    ),
    *QUEUES,
    *GROUPS,
    *TRANSACTIONS,
    *COPYING,
    *MIGRATION,
    *CLOSED,
    *FILES,
    *CLUSTERS,
]
