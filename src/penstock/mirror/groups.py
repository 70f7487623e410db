"""Copies what consumer groups have committed, and where share groups begin.

As offsets are equal, an offset that a group committed at the source means the same at the target. All groups that
changed are committed in one transaction of the lease, so a mirror that was fenced can take no group back. An offset is
held back until the target has all records before it. Groups with members at the target have moved already and are left
alone.

Of a share group the protocol tells the start offset of each partition, and lets it be set. What is acknowledged beyond
it, what is locked, and delivery counts stay behind: those records are delivered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from penstock.client.offsets import fetch_committed
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.mirror.notes import GROUP_PREFIX
from penstock.wire.errors import GroupIdNotFound, KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.admin.groups import GroupListing
    from penstock.mirror.lease import Lease

T = TypeVar("T")

_AT_ONCE = 16
_MOVED = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})

Offsets = dict[TopicPartition, OffsetAndMetadata]
Chosen = Callable[[str], bool]


@dataclass(slots=True)
class GroupCopy:
    """What the last round found and did."""

    source: Admin
    target: Admin
    lease: Lease
    is_mirrored: Chosen
    """Whether a topic is."""
    copied: dict[str, Offsets] = field(default_factory=dict)
    shared: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    """Groups that have members at the target already."""
    held_back: int = 0
    """Offsets that wait for their records."""
    problems: dict[str, str] = field(default_factory=dict)

    async def copy(self, ends: Mapping[TopicPartition, int]) -> None:
        """One round. `ends` says how far each partition is at the target."""
        theirs = await self.source.list_groups()
        there = {group.group_id: group for group in await self.target.list_groups()}
        self.active = sorted(
            g.group_id for g in theirs if g.group_id in there and there[g.group_id].state in _MOVED and _counts(g)
        )
        self.held_back = 0
        chosen = [group for group in theirs if _counts(group) and group.group_id not in self.active]
        await self._copy_committed([g.group_id for g in chosen if not _is_queue(g)], there, ends)
        await self._copy_shared([g.group_id for g in chosen if _is_queue(g)], ends)
        await self._forget({group.group_id for group in theirs}, there)

    async def differences(self) -> list[str]:
        """Offsets that are not the same on both sides, group by group."""
        found: list[str] = []
        for group in await self.source.list_groups():
            if not _counts(group):
                continue
            name = group.group_id
            if _is_queue(group):
                theirs: dict[TopicPartition, int] = await self._starts(self.source, name)
                ours = await self._starts(self.target, name)
            else:
                theirs = {tp: at.offset for tp, at in (await self._committed(self.source, name)).items()}
                ours = {tp: at.offset for tp, at in (await self._committed(self.target, name)).items()}
            found += [
                f"group {name}: {tp} is at {offset:,} at the source, and at {ours.get(tp, -1):,} at the target"
                for tp, offset in sorted(theirs.items())
                if ours.get(tp) != offset
            ]
        return found

    # Consumer groups

    async def _copy_committed(
        self, names: list[str], there: Mapping[str, GroupListing], ends: Mapping[TopicPartition, int]
    ) -> None:
        changed: dict[str, Offsets] = {}
        for name, offsets in (await _each(names, lambda name: self._committed(self.source, name))).items():
            if name not in self.copied:
                self.copied[name] = await self._committed(self.target, name) if name in there else {}
            known = self.copied[name]
            ready = {tp: at for tp, at in offsets.items() if at.offset <= ends.get(tp, -1)}
            self.held_back += len(offsets) - len(ready)
            new = {tp: at for tp, at in ready.items() if known.get(tp) != at}
            if new:
                changed[name] = new
            if gone := [tp for tp in known if tp not in offsets]:
                await self.target.delete_group_offsets(name, gone)
                for tp in gone:
                    del known[tp]
        if changed:
            await self.lease.commit(changed)
            for name, new in changed.items():
                self.copied[name].update(new)

    async def _committed(self, admin: Admin, name: str) -> Offsets:
        """Of the mirrored topics. An open transaction's offsets are waited for; leader epochs mean nothing here."""
        found = await fetch_committed(admin.cluster, name, None, require_stable=True)
        return {tp: OffsetAndMetadata(at.offset, at.metadata) for tp, at in found.items() if self.is_mirrored(tp.topic)}

    async def _forget(self, alive: set[str], there: Mapping[str, GroupListing]) -> None:
        """Delete at the target what this mirror has copied and the source has deleted since."""
        gone = [name for name in {**self.copied, **self.shared} if name not in alive]
        for name in gone:
            self.copied.pop(name, None)
            self.shared.pop(name, None)
            if name in there and there[name].state not in _MOVED:
                await self.target.delete_groups([name])

    # Share groups

    async def _copy_shared(self, names: list[str], ends: Mapping[TopicPartition, int]) -> None:
        for name, starts in (await _each(names, lambda name: self._starts(self.source, name))).items():
            known = self.shared.setdefault(name, {})
            ready = {tp: start for tp, start in starts.items() if start <= ends.get(tp, -1)}
            self.held_back += len(starts) - len(ready)
            new = {tp: start for tp, start in ready.items() if known.get(tp) != start}
            if not new:
                continue
            try:
                await self.target.alter_share_group_offsets(name, new)
                self.problems.pop(name, None)
                known.update(new)
            except KafkaError as error:
                if error.retriable:
                    raise
                self.problems[name] = f"the start offsets of the share group {name} cannot be set: {error}"

    async def _starts(self, admin: Admin, name: str) -> dict[TopicPartition, int]:
        try:
            found = await admin.list_share_group_offsets(name)
        except (GroupIdNotFound, UnsupportedVersion):
            return {}
        return {tp: at.start_offset for tp, at in found.items() if at.start_offset >= 0 and self.is_mirrored(tp.topic)}


async def _each(names: Iterable[str], work: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """What `work` finds for each name, a few at a time."""
    busy = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> tuple[str, T]:
        async with busy:
            return name, await work(name)

    return dict(await asyncio.gather(*map(one, names)))


def _counts(group: GroupListing) -> bool:
    """Whether a group is one to copy: not a mirror's own, and of a kind that keeps offsets of topics."""
    return not group.group_id.startswith(GROUP_PREFIX) and (_is_queue(group) or group.protocol_type in ("", "consumer"))


def _is_queue(group: GroupListing) -> bool:
    return group.type.lower() == "share"
