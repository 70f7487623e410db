"""How far a mirror is, seen from outside: by what both sides hold, whether or not it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.admin import Admin
from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition, by_topic
from penstock.mirror.notes import name_of
from penstock.mirror.run import SETTINGS, different_clusters, read_notes


@dataclass(slots=True, frozen=True)
class Standing:
    """One topic."""

    topic: str
    partitions: int
    source_end: int
    target_end: int
    lag: int
    cut_over_ms: int


async def standing(from_: Mapping[str, object], to: Mapping[str, object]) -> list[Standing]:
    """Every topic that a mirror between the two has begun with, by name. One that is gone from a side is left out."""
    async with Admin({**from_, **SETTINGS}) as source, Admin({**to, **SETTINGS}) as target:
        notes = await read_notes(target, name_of(await different_clusters(source, target)))
        both = {info.name for info in await source.list_topics()} & {info.name for info in await target.list_topics()}
        tps = [tp for tp in notes if tp.topic in both]
        latest = dict.fromkeys(tps, OffsetSpec.LATEST)
        theirs = await source.list_offsets(latest, isolation=IsolationLevel.READ_COMMITTED)
        ours = await target.list_offsets(latest)
    found = []
    for topic, numbers in sorted(by_topic(tps).items()):
        of_topic = [TopicPartition(topic, number) for number in numbers]
        found.append(
            Standing(
                topic,
                len(numbers),
                sum(theirs[tp].offset for tp in of_topic),
                sum(ours[tp].offset for tp in of_topic),
                sum(max(theirs[tp].offset - ours[tp].offset, 0) for tp in of_topic),
                max(notes[tp].cut_over_ms for tp in of_topic),
            )
        )
    return found
