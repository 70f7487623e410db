"""Mutants of the embedded engine: what it syncs, what it notes, and what it makes of its files after a crash."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client import fetcher
from penstock.client.truncation import TruncationCheck
from penstock.log import recovery, segment
from penstock.log.flusher import Flusher
from penstock.log.partition import PartitionLog
from penstock.storage.checkpoint import Checkpoints
from tests.simulation.faults import Fault
from tests.simulation.machines import FileFollowed, FileRot, FileSegments, FileStreams, FileTransactions
from tests.simulation.mutant import Mutant


class Rolling(FileStreams):
    """With segments of some ten records, so that a broker is now and then killed between a new one and its sync."""

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        return await super().create_topic(name, partitions, {"internal.segment.bytes": "1000", **(configs or {})})


def _killed_then_cut(at_ms: int) -> tuple[Fault, ...]:
    """The broker is killed when no sync has ended for a while, and the power goes moments after the next one serves."""
    return Fault(at_ms, "slow-disk", 150, 0), Fault(at_ms + 150, "kill", 1, 0), Fault(at_ms + 350, "power-cut", 30, 0)


KILLED_THEN_CUT = (
    Fault(150, "kill", 1, 0),  # from then on the checkpoints name the logs, and syncing them syncs no names
    *(fault for at_ms in range(300, 3900, 600) for fault in _killed_then_cut(at_ms)),
)

FILES = [
    Mutant(
        "segment-not-synced",
        "a sync leaves out the batches",
        FileStreams,
        PartitionLog,
        "sync",
        "active.sync()\n",
        "pass\n",
    ),
    Mutant(
        "folder-not-synced",
        "the name of a new segment is not synced with its first records",
        FileStreams,
        PartitionLog,
        "sync",
        "if created or folder_changed:",
        "if False:",
        first_seed=4,
    ),
    Mutant(
        "names-of-the-killed-not-synced",
        "names that a killed broker has left unsynced are not synced by the next one",
        Rolling,
        PartitionLog,
        "open",
        "log._created or not clean or",
        "log._created or",
        plan=KILLED_THEN_CUT,
    ),
    Mutant(
        "rolled-not-synced",
        "a sync leaves out what has rolled since the last one",
        FileSegments,
        PartitionLog,
        "sync",
        "segment.sync()",
        "pass",
    ),
    Mutant(
        "checksums-not-looked-at",
        "recovery keeps a batch whose checksum is wrong",
        FileStreams,
        recovery,
        "_recover_segment",
        "if last >= recovery_point and crc32c(",
        "if False and crc32c(",
        first_seed=5,
    ),
    Mutant(
        "recovery-point-too-far",
        "the checkpoint says of everything that it is on disk",
        FileSegments,
        PartitionLog,
        "recovery_start",
        "return self.recovery_point\n",
        "return self.log_end_offset\n",
        first_seed=20,
    ),
    Mutant(
        "no-epoch-after-a-power-cut",
        "what is appended in place of lost records has the epoch of those",
        FileFollowed,
        Checkpoints,
        "_raise_leader_epochs",
        "",
        "",
        first_seed=5,
    ),
    Mutant(
        "failed-sync-forgotten",
        "a sync that has failed is repeated, and the disk trusted again",
        FileSegments,
        Flusher,
        "_sync",
        "self.failure = failure",
        "pass",
        first_seed=57,
    ),
    Mutant(
        "writes-cut-short",
        "a write of which the kernel has taken a part counts as done",
        FileStreams,
        segment,
        "pwrite_all",
        "while written < len(view):",
        "while False:",
        first_seed=9,
    ),
    Mutant(
        "aborted-not-restored",
        "recovery forgets which transactions were aborted",
        FileTransactions,
        recovery,
        "_restore_transaction_index",
        "kept + replayed",
        "kept",
    ),
    Mutant(
        "not-written-again",
        "what a failed sync may have dropped is trusted by the next start",
        FileSegments,
        recovery,
        "_write_again",
        "",
        "",
        first_seed=69,
    ),
    Mutant(
        "truncation-not-noticed",
        "our own consumer reads on where records were lost that it had read",
        FileFollowed,
        TruncationCheck,
        "_judge",
        "if is_known and answer.end_offset >= state.fetched_to:",
        "if True:",
        first_seed=5,
    ),
    Mutant(
        "rot-not-noticed",
        "our own consumer does not look at checksums",
        FileRot,
        fetcher,
        "crc_is_valid",
        "return stored ==",
        "return True or stored ==",
    ),
]
