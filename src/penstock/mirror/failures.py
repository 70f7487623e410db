"""Why a mirror stops: altogether, or with one topic."""

from __future__ import annotations


class MirrorError(Exception):
    """The mirror cannot run; the text says why and what to do."""


class TakenOver(MirrorError):
    """Another mirror, or the cut-over, of the same pair of clusters has begun."""

    def __init__(self) -> None:
        super().__init__(
            "Another mirror or cut-over of the same two clusters has taken over, so this one has stopped. "
            "Run only one of them."
        )


class TopicStopped(Exception):
    """One topic cannot be mirrored any further; the text says why and what to do. The others go on."""


class Unsettled(Exception):
    """It is not known what became of a write: look at the target before anything else is written."""
