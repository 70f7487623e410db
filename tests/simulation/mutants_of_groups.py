"""Mutants of queues, groups and transactions: the rest of `mutants.py`."""

from __future__ import annotations

from penstock.broker.share import live
from penstock.broker.share.coordinator import ShareCoordinator
from penstock.broker.share.live import LiveSharePartition
from penstock.coordination.runtime import CoordinatorRuntime
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.protocol import ClassicProtocol
from penstock.groups.consumer import reconciliation
from penstock.groups.replay import Replayer
from penstock.log.producer_state import ProducerState
from penstock.queues import share_partition
from penstock.queues.locks import LockTable
from penstock.queues.share_partition import SharePartition
from penstock.transactions import end_txn, init_producer
from penstock.transactions.shard import TransactionShard
from tests.simulation.groups import ConsumerGroups, Groups, StaticMembers
from tests.simulation.mutant import Mutant
from tests.simulation.queues import FlushedQueues, Queues
from tests.simulation.streams import Transactions

QUEUES = [
    Mutant(
        "holder-not-checked",
        "a worker may acknowledge what another one holds",
        Queues,
        SharePartition,
        "_holds",
        "return False",
        "pass",
    ),
    Mutant(
        "lock-too-short",
        "a lock lasts half as long as it should",
        Queues,
        SharePartition,
        "take",
        "now_ms + record_lock_duration_ms,",
        "now_ms + record_lock_duration_ms // 2,",
    ),
    Mutant(
        "lock-never-ends",
        "a lock that has run out is not noticed",
        Queues,
        LockTable,
        "due",
        "self._deadlines[0][0] <= now_ms",
        "self._deadlines[0][0] <= now_ms - 600_000",
    ),
    Mutant(
        "renewal-forgotten",
        "a renewed lock ends when it would have ended",
        Queues,
        SharePartition,
        "_renew",
        "",
        "",
    ),
    Mutant(
        "release-is-accept",
        "a released record counts as done",
        Queues,
        share_partition,
        "_answer",
        "if kind == AcknowledgeType.ACCEPT:",
        "if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE):",
    ),
    Mutant(
        "reject-is-release",
        "a rejected record comes again",
        Queues,
        share_partition,
        "_answer",
        "    return Change(first, held, held.translate(c.ARCHIVE))",
        "    return Change(first, held, held.translate(c.release_table(9, dead_letters=False, delayed=False)))",
    ),
    Mutant(
        "accept-is-release",
        "an accepted record comes again",
        Queues,
        share_partition,
        "_answer",
        "return Change(first, held, held.translate(c.ACCEPT))",
        "return Change(first, held, held.translate(c.release_table(9, dead_letters=False, delayed=False)))",
    ),
    Mutant(
        "back-off-ignored",
        "a released record comes again at once",
        Queues,
        SharePartition,
        "_apply",
        "now_ms + wait_ms)",
        "now_ms)",
    ),
    Mutant(
        "delivery-limit-ignored",
        "a released record comes again however often it was delivered",
        Queues,
        share_partition,
        "_answer",
        "            settings.delivery_count_limit,",
        "            99,",
    ),
    Mutant(
        "acknowledgement-not-written",
        "an acknowledgement is confirmed and never written down",
        Queues,
        LiveSharePartition,
        "_carry_out",
        "if transition.needs_write or must_write:",
        "if False:",
    ),
    Mutant(
        "confirmed-before-the-disk",
        "an acknowledgement is confirmed before it is on disk, although it should wait",
        Queues,
        ShareCoordinator,
        "_flush_interval_ms",
        "return 0 if",
        "return 600_000 if True or",
        100,
    ),
    Mutant(
        "never-flushed",
        "confirmed acknowledgements are not flushed",
        FlushedQueues,
        ShareCoordinator,
        "_flush_within",
        "",
        "",
        100,
    ),
    Mutant(
        "state-not-restored",
        "a restarted broker forgets what is done above the start offset",
        Queues,
        SharePartition,
        "restore",
        "sorted(batches)",
        "()",
    ),
    Mutant(
        "start-too-far",
        "the start offset passes one record that is not done",
        Queues,
        SharePartition,
        "_advance_start",
        "done = c.terminal_prefix(self._window.cells)",
        "done = c.terminal_prefix(self._window.cells) + (len(self._window.cells) > 5)",
    ),
    Mutant(
        "locks-by-the-wall-clock",
        "locks follow a clock that is set",
        Queues,
        live,
        "steady_ms",
        "return int(world.monotonic() * 1000)",
        "return world.now_ms()",
        100,
    ),
]

GROUPS = [
    Mutant(
        "taken-before-released",
        "a partition is assigned while another member holds it",
        ConsumerGroups,
        reconciliation,
        "_next_step",
        "if owners.get((topic_id, partition), member.member_id) == member.member_id:",
        "if True:",
    ),
    Mutant(
        "revocation-not-awaited",
        "a revoked partition is free before its member has let go",
        ConsumerGroups,
        reconciliation,
        "_next_step",
        "if revoke and (owned is None or holds_any(owned, revoke)):",
        "if False:",
    ),
    Mutant(
        "rebalance-without-the-others",
        "a rebalance ends before all members have joined",
        Groups,
        ClassicGroup,
        "all_joined",
        "return not self.pending_joins and all(",
        "return not self.pending_joins and any(",
    ),
    Mutant(
        "session-never-expires",
        "a dead member keeps its partitions",
        Groups,
        ClassicProtocol,
        "_restart_session",
        "now_ms + member.session_timeout_ms",
        "now_ms + 3_600_000",
    ),
    Mutant(
        "expelled-too-soon",
        "a member is expelled after half its session timeout",
        Groups,
        ClassicProtocol,
        "_restart_session",
        "now_ms + member.session_timeout_ms",
        "now_ms + member.session_timeout_ms // 5",
    ),
    Mutant(
        "offsets-not-replayed",
        "a restarted coordinator forgets committed offsets",
        Groups,
        Replayer,
        "_offset_commit",
        "self._state.offsets.put(key.group, key.topic, key.partition, value, producer_id)",
        "self._state.offsets.put(key.group, key.topic, (key.partition + 1) % 4, value, producer_id)",
    ),
    Mutant(
        "commit-before-the-disk",
        "an offset commit is answered before it is on disk",
        Groups,
        CoordinatorRuntime,
        "carry_out",
        "if position is None or not may_wait:",
        "if True:",
        150,
    ),
    Mutant(
        "static-member-is-new",
        "a static member that returns gets none of its partitions",
        StaticMembers,
        ClassicGroup,
        "replace_static",
        "old.assignment,",
        "b'',",
    ),
]

TRANSACTIONS = [
    Mutant(
        "aborted-counts-as-committed",
        "an aborted transaction is not remembered as one",
        Transactions,
        ProducerState,
        "apply_marker",
        "not marker.commit, stable)",
        "False, stable)",
    ),
    Mutant(
        "second-transaction-unstable",
        "only the oldest open transaction has ended when any has",
        Transactions,
        ProducerState,
        "apply_marker",
        "self._ongoing.pop(first_offset, None)",
        "self._ongoing.clear()",
    ),
    Mutant(
        "no-new-epoch",
        "a new producer does not fence the one before it",
        Transactions,
        init_producer,
        "initialize",
        "return next_epoch(meta, timeout_ms=timeout_ms, expected_epoch=expected_epoch, now_ms=now_ms)",
        "return meta if meta.producer_epoch >= 0 else "
        "next_epoch(meta, timeout_ms=timeout_ms, expected_epoch=expected_epoch, now_ms=now_ms)",
        100,
    ),
    Mutant(
        "markers-not-resumed",
        "a restarted coordinator does not go on with what was decided",
        Transactions,
        TransactionShard,
        "loaded",
        "if meta.state in ENDING:",
        "if False:",
        100,
    ),
    Mutant(
        "abort-becomes-commit",
        "a transaction that is aborted over its producer's head is committed",
        Transactions,
        end_txn,
        "_prepared_with_epoch_bump",
        "commit=commit",
        "commit=True",
    ),
    Mutant(
        "end-of-the-fenced",
        "a fenced producer may end the transaction of its successor",
        Transactions,
        end_txn,
        "_end_classic",
        "if meta.producer_epoch != request.epoch:",
        "if False:",
        150,
    ),
]
