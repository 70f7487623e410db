"""What a mirror has to remember, kept at the target as the metadata of committed offsets.

The group is named after the source. Its offsets say how far each partition is, so every tool shows the mirror's
progress; the metadata of each holds the rest as JSON. They are committed under the lease, so a mirror that was fenced
changes nothing here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.client.types import OffsetAndMetadata

GROUP_PREFIX = "penstock-mirror-"


@dataclass(slots=True, frozen=True)
class Note:
    """About one partition."""

    topic_id: str
    """Of the topic at the source, so that one which was created anew is noticed."""
    producer_id: int
    producer_epoch: int
    """Whose batches the mirror's are, for good."""
    filling_to: int = -1
    """The log start offset that the partition is being given, while that is under way."""
    cut_over_ms: int = -1
    """When the programs changed over; -1 before that."""

    def commit(self, offset: int) -> OffsetAndMetadata:
        text = [self.topic_id, self.producer_id, self.producer_epoch, self.filling_to, self.cut_over_ms]
        return OffsetAndMetadata(offset, json.dumps(text, separators=(",", ":")))


def read_note(metadata: str) -> Note | None:
    """None for what no mirror has written."""
    try:
        topic_id, producer_id, producer_epoch, filling_to, cut_over_ms = json.loads(metadata)
        return Note(str(topic_id), int(producer_id), int(producer_epoch), int(filling_to), int(cut_over_ms))
    except (ValueError, TypeError):
        return None


def name_of(source_cluster_id: str) -> str:
    """The group, and the transactional id, of the mirror of a source."""
    return GROUP_PREFIX + source_cluster_id
