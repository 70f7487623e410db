"""Mutants of clusters: of the engine over an object store, of leases and take-overs, and of who leads."""

from __future__ import annotations

from penstock.broker.membership import Membership
from penstock.broker.share.writes import StateWrites
from penstock.log import producer_state
from penstock.storage.objects import memory_commit_log
from penstock.storage.objects.committer import _Job
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.storage import ObjectStorage
from penstock.storage.objects.sweep import Sweep
from penstock.storage.objects.takeover import TakeOver
from penstock.transactions.shard import TransactionShard
from tests.simulation.cluster_queues import ClusterQueues
from tests.simulation.clusters import (
    ClusterStreams,
    ClusterTransactions,
)
from tests.simulation.faults import Fault
from tests.simulation.late_markers import ClusterLateMarkers
from tests.simulation.mutant import Mutant
from tests.simulation.repeats import Repeats


class Hasty(ClusterStreams):
    """Waits for less time until a partition is led again: the world is quick, and so is the test."""

    healed_seconds = 150


SLOW_AND_PARTED = (
    Fault(1000, "catalog-slow", 1490, 0),
    Fault(2200, "part-from-catalog", 1200, 0),
    Fault(2300, "part-from-catalog", 1200, 1),
    Fault(2400, "part-from-catalog", 1200, 2),
)
"""Renewals are answered late, and then no more."""

CUT_OFF_IN_TURN = tuple(Fault(500 + 13_000 * number, "coordinator-cut-off", 700, number) for number in range(3))

CLUSTERS = [
    Mutant(
        "epoch-not-checked",
        "the commit of a leader that was replaced is taken",
        ClusterStreams,
        memory_commit_log,
        "outcome_of",
        "if state.leader_epoch != tail.leader_epoch:",
        "if False:",
        first_seed=10,
    ),
    Mutant(
        "repeated-commit-unknown",
        "a commit whose answer was lost is not recognised when it is repeated",
        ClusterStreams,
        memory_commit_log,
        "outcome_of",
        "if state.end_offset in (tail.base_offset, tail.end_offset):",
        "if state.end_offset == tail.base_offset:",
        first_seed=4,
    ),
    Mutant(
        "named-before-stored",
        "the commit log names an object whose upload has not ended",
        ClusterStreams,
        _Job,
        "is_ready",
        "return self.is_uploaded and all(",
        "return all(",
    ),
    Mutant(
        "commits-in-any-order",
        "a commit does not wait for the one before it",
        ClusterStreams,
        _Job,
        "is_ready",
        "return self.is_uploaded and all(job.is_done for job in self.before)",
        "return self.is_uploaded",
        first_seed=10,
    ),
    Mutant(
        "confirmed-before-the-commit",
        "records are acknowledged before they are committed",
        ClusterStreams,
        ObjectStorage,
        "when_durable",
        "elif log.committed_end >= position and log.start_committed >= log.log_start_offset:",
        "elif True:",
        first_seed=7,
    ),
    Mutant(
        "read-before-the-commit",
        "readers see records that are not committed",
        ClusterStreams,
        ObjectLog,
        "read",
        "high_watermark = self.committed_end",
        "high_watermark = self.log_end_offset",
        first_seed=9,
    ),
    Mutant(
        "refusal-is-success",
        "what waits for its commit is confirmed when another broker takes over",
        ClusterStreams,
        ObjectStorage,
        "_refuse",
        "self._answer(callback, _leadership_lost(log))",
        "self._answer(callback, None)",
        first_seed=24,
    ),
    Mutant(
        "lease-not-checked",
        "a broker whose lease is over goes on answering",
        ClusterStreams,
        Membership,
        "check",
        "if self._clock() < self._held_until:",
        "if True:",
    ),
    Mutant(
        "lease-from-its-answer",
        "a lease counts from when its renewal was answered, not from before it was requested",
        ClusterStreams,
        Membership,
        "_renew",
        "self._held_until = max(self._held_until, sent_at + self.lease.seconds)",
        "self._held_until = max(self._held_until, self._clock() + self.lease.seconds)",
        first_seed=7,
        plan=SLOW_AND_PARTED,
    ),
    Mutant(
        "late-answers-unchecked",
        "what was computed before the lease ended is answered afterwards",
        ClusterStreams,
        Membership,
        "may_answer",
        "return self.is_suspended or self.check()",
        "return True",
    ),
    Mutant(
        "object-deleted-too-early",
        "an object is deleted as soon as nothing names it any more, whoever still reads it",
        ClusterStreams,
        Sweep,
        "run",
        "self._commits.marked(settings.grace_seconds)",
        "self._commits.marked(0.0)",
    ),
    Mutant(
        "orphan-deleted-too-early",
        "an upload that was given up is deleted before it is too old to be repeated",
        ClusterStreams,
        Sweep,
        "_remove_doomed",
        "until = time.monotonic() - self._settings.orphan_seconds",
        "until = time.monotonic()",
        first_seed=20,
    ),
    Mutant(
        "named-is-orphan",
        "objects that are named are taken for orphans",
        ClusterStreams,
        Sweep,
        "_unknown",
        "return wanted - self._commits.known_among(wanted)",
        "return wanted",
    ),
    Mutant(
        "orphans-forgotten",
        "an upload whose commit was refused is never deleted",
        ClusterStreams,
        Sweep,
        "doom",
        "",
        "",
        first_seed=20,
    ),
    Mutant(
        "fenced-writers-not-swept",
        "what a broker has uploaded before it died is never deleted",
        ClusterStreams,
        Sweep,
        "_sweep_writers",
        "if writer.is_done:",
        "if True:",
    ),
    Mutant(
        "extent-deleted-too-early",
        "a segment takes the place of extents that it does not cover",
        Hasty,
        MemoryCommitLog,
        "_drop_covered",
        "not segment.base_offset < each.end_offset <= segment.end_offset",
        "not segment.base_offset < each.end_offset",
    ),
    Mutant(
        "producers-of-segments-forgotten",
        "whoever takes over does not know the producers of what is in segments",
        Repeats,
        TakeOver,
        "_read_snapshot",
        "",
        "",
    ),
    Mutant(
        "extents-mixed-up",
        "whoever takes over puts extents of one object into the places of each other",
        Repeats,
        TakeOver,
        "_read_run",
        "start = place.extent.position - run.start",
        "start = run.places[run.places.index(place) - 1].extent.position - run.start",
    ),
    Mutant(
        "thrown-away-writes",
        "a window of a queue that was thrown away writes its state over that of its successor",
        ClusterQueues,
        StateWrites,
        "close",
        "",
        "",
    ),
    Mutant(
        "late-markers-taken",
        "a marker of a coordinator that was replaced ends the transaction that is open by then",
        ClusterLateMarkers,
        producer_state,
        "_check_marker",
        "if marker.coordinator_epoch < entry.coordinator_epoch:",
        "if False:",
        plan=CUT_OFF_IN_TURN,
    ),
    Mutant(
        "complete-after-the-first-marker",
        "a transaction is complete when its first marker is written",
        ClusterTransactions,
        TransactionShard,
        "markers_written",
        "if not unmarked:",
        "if True:",
    ),
]
