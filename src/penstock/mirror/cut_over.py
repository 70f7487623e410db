"""The cut-over: the last records and offsets are copied, both sides are compared, and the target is made ready.

It is a mirror itself, so it fences the one that runs. It waits until nothing is written to the source any more, and
refuses as long as groups have members there: what they commit later would be missing at the target. Nothing at the
target changes for good before every comparison was passed; after a refusal, `penstock mirror` goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition
from penstock.mirror.acls import missing_acls
from penstock.mirror.copying import first_difference
from penstock.mirror.failures import MirrorError, Unsettled
from penstock.mirror.groups import GroupCopy
from penstock.mirror.run import Mirror
from penstock.mirror.source import read
from penstock.wire.errors import OffsetOutOfRange

_POLL_S = 0.1
_WINDOW = 5_000
_COMPARED_AT_ONCE = 4
_SHOWN = 10
_MOVING = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@dataclass(slots=True, frozen=True)
class CutOver:
    """What was compared."""

    topics: int
    partitions: int
    records_compared: int
    groups: int
    notes: list[str]


class Refused(MirrorError):
    """The cut-over was not made; `reasons` says why."""

    def __init__(self, reasons: list[str]) -> None:
        shown = [f"  - {each}" for each in reasons[:_SHOWN]]
        if len(reasons) > _SHOWN:
            shown.append(f"  - and {len(reasons) - _SHOWN} more")
        super().__init__(
            "\n".join(
                [
                    "The cut-over was not made, and nothing was changed. Resolve this, and run it again "
                    "(penstock mirror continues meanwhile):",
                    *shown,
                ]
            )
        )
        self.reasons = reasons


async def cut_over(
    mirror: Mirror, *, still_s: float, timeout_s: float, records: int, tell: Callable[[str], None]
) -> CutOver:
    """Complete a mirror that was started. `records` is how many offsets of each partition's end are compared; 0 is all.

    Raises Refused when something is not as it must be.
    """
    running = asyncio.create_task(mirror.run())
    steps = asyncio.create_task(_steps(mirror, still_s, timeout_s, records, tell))
    try:
        await asyncio.wait({running, steps}, return_when=asyncio.FIRST_COMPLETED)
        if not steps.done():
            running.result()
        return await steps
    finally:
        for task in (steps, running):
            task.cancel()
        await asyncio.gather(steps, running, return_exceptions=True)


async def _steps(
    mirror: Mirror, still_s: float, timeout_s: float, records: int, tell: Callable[[str], None]
) -> CutOver:
    deadline = asyncio.get_running_loop().time() + timeout_s
    tell("Waiting until every topic is being copied ...")
    await _until(lambda: mirror.status().is_ready, deadline, lambda: ["some topics could not be prepared in time"])
    _check_problems(mirror)
    tell(f"Waiting until nothing is written to the source for {still_s:g} s ...")
    ends = await _standstill(mirror, still_s, deadline)
    tell("Copying the last records and offsets ...")
    await _until(lambda: _is_copied(mirror, ends), deadline, lambda: _behind(mirror, ends))
    await _check_members(mirror)
    await _copy_groups(mirror, deadline)
    tell("Comparing both sides ...")
    compared = await _compare(mirror, ends, records)
    await _finish(mirror)
    status = mirror.status()
    return CutOver(status.topics, status.partitions, compared, status.groups, status.notes)


async def _until(condition: Callable[[], bool], deadline: float, reasons: Callable[[], list[str]]) -> None:
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise Refused(reasons())
        await asyncio.sleep(_POLL_S)


def _check_problems(mirror: Mirror) -> None:
    if problems := mirror.status().problems:
        raise Refused(problems)


async def _source_ends(mirror: Mirror, isolation: IsolationLevel) -> dict[TopicPartition, int]:
    await mirror.find_topics()
    infos = await mirror.from_.list_topics()
    tps = [
        TopicPartition(info.name, number) for info in infos if info.name in mirror.topics for number in info.partitions
    ]
    found = await mirror.from_.list_offsets(dict.fromkeys(tps, OffsetSpec.LATEST), isolation=isolation)
    return {tp: at.offset for tp, at in found.items()}


async def _standstill(mirror: Mirror, still_s: float, deadline: float) -> dict[TopicPartition, int]:
    """The ends of the source's partitions, once they have not moved for a while."""
    loop = asyncio.get_running_loop()
    ends = await _source_ends(mirror, IsolationLevel.READ_UNCOMMITTED)
    since = loop.time()
    moving: set[str] = set()
    while loop.time() - since < still_s:
        await asyncio.sleep(min(_POLL_S * 5, still_s))
        now = await _source_ends(mirror, IsolationLevel.READ_UNCOMMITTED)
        _check_problems(mirror)
        if now != ends:
            moving = {tp.topic for tp in now if now[tp] != ends.get(tp)}
            ends, since = now, loop.time()
        if loop.time() > deadline:
            raise Refused([f"programs still write to {name} at the source: stop them" for name in sorted(moving)])
    stable = await _source_ends(mirror, IsolationLevel.READ_COMMITTED)
    if unfinished := [tp for tp, end in ends.items() if stable.get(tp) != end]:
        raise Refused(
            [
                f"a transaction is open in {tp} at the source: end its program, or see penstock txn list"
                for tp in sorted(unfinished)
            ]
        )
    return ends


def _is_copied(mirror: Mirror, ends: dict[TopicPartition, int]) -> bool:
    copied = mirror.ends()
    return bool(mirror.status().problems) or all(copied.get(tp, -1) >= end for tp, end in ends.items())


def _behind(mirror: Mirror, ends: dict[TopicPartition, int]) -> list[str]:
    copied = mirror.ends()
    trouble = mirror.status().trouble
    return [
        f"{tp} is at {copied.get(tp, -1):,} of {end:,} at the target{f' ({trouble})' if trouble else ''}"
        for tp, end in sorted(ends.items())
        if copied.get(tp, -1) < end
    ]


async def _check_members(mirror: Mirror) -> None:
    groups = [
        group.group_id
        for group in await mirror.from_.list_groups()
        if group.state in _MOVING and group.protocol_type in ("", "consumer", "share")
    ]
    if groups:
        raise Refused([f"the group {name} has members at the source: stop its programs" for name in groups])


async def _copy_groups(mirror: Mirror, deadline: float) -> None:
    while True:
        try:
            await mirror.copy_groups()
            return
        except Unsettled as error:
            if asyncio.get_running_loop().time() > deadline:
                raise Refused([f"the offsets of the groups cannot be copied: {error}"]) from error


async def _compare(mirror: Mirror, ends: dict[TopicPartition, int], records: int) -> int:
    """Refuse if the sides differ; returns how many records were compared."""
    _check_problems(mirror)
    reasons: list[str] = []
    there = await mirror.to.list_offsets(dict.fromkeys(ends, OffsetSpec.LATEST))
    reasons += [
        f"{tp} ends at {there[tp].offset:,} at the target, and at {end:,} at the source"
        for tp, end in sorted(ends.items())
        if there[tp].offset != end
    ]
    reasons += await _group_differences(mirror.groups)
    if mirror.plan.with_acls:
        reasons += [f"the target lacks {rule}" for rule in await missing_acls(mirror.from_, mirror.to)]
    busy = asyncio.Semaphore(_COMPARED_AT_ONCE)

    async def compare(tp: TopicPartition, end: int) -> int:
        async with busy:
            return await _compare_records(mirror, tp, end, records, reasons)

    compared = sum(await asyncio.gather(*(compare(tp, end) for tp, end in sorted(ends.items()))))
    if await _source_ends(mirror, IsolationLevel.READ_UNCOMMITTED) != ends:
        reasons.append("programs wrote to the source while the sides were compared: stop them")
    if reasons:
        raise Refused(reasons)
    return compared


async def _group_differences(groups: GroupCopy) -> list[str]:
    active = [f"the group {name} has members at the target already: stop its programs" for name in groups.active]
    return active or await groups.differences()


async def _compare_records(mirror: Mirror, tp: TopicPartition, end: int, records: int, reasons: list[str]) -> int:
    is_compacted = mirror.topics[tp.topic].configs.is_compacted
    at = max(await _begin(mirror, tp), end - records if records else 0)
    compared = 0
    while at < end:
        upto = min(at + _WINDOW, end)
        try:
            theirs, ours = await read(mirror.from_, tp, at, upto), await read(mirror.to, tp, at, upto)
        except OffsetOutOfRange:  # retention takes records all the time
            at = max(at, await _begin(mirror, tp))
            continue
        different = first_difference(theirs, ours, is_compacted=is_compacted)
        if different is not None:
            reasons.append(f"{tp} holds different records at offset {different:,}")
            break
        compared += len(ours)
        at = upto
    return compared


async def _begin(mirror: Mirror, tp: TopicPartition) -> int:
    """The first offset that both sides have."""
    begins = [await side.list_offsets({tp: OffsetSpec.EARLIEST}) for side in (mirror.from_, mirror.to)]
    return max(begin[tp].offset for begin in begins)


async def _finish(mirror: Mirror) -> None:
    """Give the topics their own configs, and note that the programs change over."""
    differences: list[str] = []
    mirror.parts.holds_configs = False
    for topic in mirror.topics.values():
        await topic.configs.copy(is_held=False)
        differences += await topic.configs.differences()
    if differences:
        raise Refused(differences)
    now_ms = int(time.time() * 1000)
    parts = mirror.parts
    ends = mirror.ends()
    parts.notes.update({tp: replace(parts.notes[tp], cut_over_ms=now_ms) for tp in ends})
    notes = {tp: parts.notes[tp].commit(end) for tp, end in ends.items()}
    while notes:
        try:
            await parts.lease.commit({parts.lease.name: notes})
            break
        except Unsettled:
            await asyncio.sleep(_POLL_S)
