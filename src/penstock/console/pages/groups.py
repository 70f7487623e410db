"""Consumer groups: who is in them, who has what, how far they are behind, and resets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client import group_waits
from penstock.client.admin import Admin, GroupDescription, GroupListing
from penstock.client.metadata import TopicInfo
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.console import histories, problems, resets
from penstock.console.commands import command
from penstock.console.formats import plural
from penstock.console.names import encode_name
from penstock.console.questions import Change, Form
from penstock.console.session import Session
from penstock.console.sorting import ordered
from penstock.console.web import Page, change, name_in, page, session_of
from penstock.wire.errors import GroupIdNotFound, KafkaError

NAVIGATION = [("/groups", "Groups", "g")]
_MOST_GROUPS = 500
_COLUMNS = ("group", "state", "lag", "ageSeconds")
_PARTITION_COLUMNS = ("topic", "lag", "client")
_MOST_PARTITIONS = 1_000
_AT_ONCE = 16
_LIVE_SECONDS = 2.0
_SHARE = "share"
_UNSETTLED = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


async def group_list(request: Request) -> Page:
    search = request.query_params.get("q", "")[:249]
    session = session_of(request)
    admin = await session.admin()
    every = [group for group in await admin.list_groups() if group.type.lower() != _SHARE]
    found = [group for group in every if search.lower() in group.group_id.lower()]
    known = await behind_of(session, "penstock_group")
    found.sort(key=lambda group: -known[group.group_id].lag if group.group_id in known else 0)  # of many, the worst
    shown = found[:_MOST_GROUPS]
    committed = await commits_of(admin, shown)
    ends = await ends_of(admin, {tp for offsets in committed.values() for tp in offsets})
    rows = []
    for group in shown:
        offsets = committed[group.group_id]
        rows.append(
            {
                "group": group.group_id,
                "type": group.type,
                "state": group.state,
                "topics": sorted({tp.topic for tp in offsets}),
                "lag": sum(max(0, ends[tp] - offset) for tp, offset in offsets.items() if tp in ends),
                "ageSeconds": known[group.group_id].age_seconds if group.group_id in known else None,
            }
        )
    trends = lag_trends(session, {str(row["group"]): int(str(row["lag"])) for row in rows})
    rows = [{**row, "lagPerSecond": trends.get(str(row["group"]))} for row in rows]
    rows.sort(key=lambda row: str(row["group"]))
    rows, sort = ordered(rows, request.query_params.get("sort", ""), _COLUMNS, "lag")
    data = {"groups": rows, "sort": sort, "search": search, "left_out": len(found) - len(shown)}
    return Page("groups.html", data, _LIVE_SECONDS, extra={"unsettled": _UNSETTLED})


async def group(request: Request) -> Page:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    described, history, shown = await asyncio.gather(
        admin.describe_group(name),
        session.monitoring.read("/groups/history", group=name),
        session.monitoring.read("/groups", group=name),
    )
    if described.type.lower() == _SHARE:
        raise HTTPException(404, f"{name} is a share group; it is under Queues.")
    committed = await _committed(admin, name)
    owners = {tp: member for member in described.members for tp in member.assignment}
    partitions = sorted(set(committed) | set(owners))
    ends = await ends_of(admin, set(partitions))
    rows = []
    for tp in partitions:
        owner = owners.get(tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": committed.get(tp, -1),
                "end": ends.get(tp, -1),
                "lag": max(0, ends[tp] - committed[tp]) if tp in ends and tp in committed else -1,
                "member": "" if owner is None else owner.member_id,
                "client": "" if owner is None else owner.client_id,
                "host": "" if owner is None else owner.host.lstrip("/"),
            }
        )
    lags = {tp: max(0, ends[tp] - offset) for tp, offset in committed.items() if tp in ends}
    members = [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host.lstrip("/"),
            "instance": member.group_instance_id or "",
            "epoch": member.epoch,
            "assignment": _by_topic(member.assignment),
            "target": _by_topic(member.target) if sorted(member.target) != sorted(member.assignment) else {},
            "lag": sum(lags.get(tp, 0) for tp in member.assignment),
        }
        for member in described.members
    ]
    points, events = histories.read(history)
    rows, sort = ordered(rows, request.query_params.get("sort", ""), _PARTITION_COLUMNS, "topic")
    known = (await behind_of(session, "penstock_group")).get(name)
    data = {
        "sort": sort,
        "lagPerSecond": lag_trends(session, {name: sum(lags.values())}).get(name),
        "ageSeconds": None if known is None else known.age_seconds,
        "group": name,
        "type": described.type,
        "state": described.state,
        "coordinator": described.coordinator,
        "assignor": described.assignor,
        "epoch": described.epoch,
        "lag": sum(lags.values()),
        "waits": _waits(described, shown, sum(lags.values()), events),
        "history": points,
        "events": events,
        "members": members,
        "partitions": rows[:_MOST_PARTITIONS],
        "left_out": max(0, len(rows) - _MOST_PARTITIONS),
    }
    topics = sorted({tp.topic for tp in partitions})
    extra = {
        "topics": topics,
        "unsettled": _UNSETTLED,
        "largest": max(lags.values(), default=0),
        "kinds": resets.KINDS,
        "curve": histories.curve(points),
        "drawn": histories.assignment(described, partitions, lags),
        "colours": histories.COLOURS,
        "remembers": bool(history),
    }
    return Page("group.html", data, _LIVE_SECONDS, extra=extra)


def _waits(
    described: GroupDescription, shown: Sequence[object], lag: int, events: Sequence[histories.Event]
) -> list[str]:
    """What the group waits for, as `penstock group describe` explains it, and what the rebalance came with."""
    if described.state == "Empty":
        return [f"Waiting for a member: {plural(lag, 'record')} to read, and nobody reads them."] if lag else []
    rows = [row for view in shown if isinstance(view, list) for row in view]  # only its coordinator has any
    sentences = group_waits.explain(described, group_waits.waits_of(described, rows if shown else None))
    cause = histories.cause_of(events) if sentences else ""
    return [*sentences, cause] if cause else sentences


async def reset(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    try:
        members = (await admin.describe_group(name)).members
    except GroupIdNotFound:
        members = []  # a group that is to begin with these offsets
    if members:
        raise HTTPException(
            409, f"Group {name} has {len(members)} active members; stop them first: offsets are reset without any."
        )
    words, partitions = await resets.chosen(admin, form)
    kind, number, options = resets.options_of(form)
    current = await _committed(admin, name)
    found = await resets.targets(admin, partitions, current, kind, number)

    async def perform(_: Form) -> str:
        await admin.alter_group_offsets(name, found)
        return f"Group {name} goes on at its new offsets in {words}."

    rows = [(str(tp), current.get(tp, -1), new, f"{new - current.get(tp, new):+,}") for tp, new in found.items()]
    line = command(session, "group", "reset-offsets", name, "--topic", words, *options, "--execute")
    columns = ("Partition", "Committed offset", "New offset", "Change")
    return Change(f"Reset group {name} in {words}?", line, _address(name), perform, "Reset", columns=columns, rows=rows)


async def delete(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)

    async def perform(_: Form) -> str:
        for error in (await (await session.admin()).delete_groups([name])).values():
            if error is not None:
                raise error
        return f"Group {name} is deleted."

    line = command(session, "group", "delete", name)
    question = f"Delete group {name} and its offsets?"
    return Change(question, line, _address(name), perform, "Delete it", danger=True, onward="/groups")


async def behind_of(session: Session, prefix: str) -> dict[str, problems.Behind]:
    """Lag and age of groups by name, where brokers show them: `prefix` as in `problems.behind`."""
    metrics = await session.monitoring.metrics()
    return problems.behind(metrics.values(), prefix, "")


def lag_trends(session: Session, lags: Mapping[str, float]) -> dict[str, float]:
    """By how much the lag of each group grows a second, or falls."""
    found = session.rates.update({f"lag of {name}": lag for name, lag in lags.items()}, may_fall=True)
    return {name: found[f"lag of {name}"] for name in lags if f"lag of {name}" in found}


async def commits_of(admin: Admin, groups: list[GroupListing]) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets of groups; none of those that this user may not see."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(group_id: str) -> dict[TopicPartition, int]:
        async with few:
            try:
                return await _committed(admin, group_id)
            except KafkaError:
                return {}

    found = await asyncio.gather(*(one(group.group_id) for group in groups))
    return {group.group_id: offsets for group, offsets in zip(groups, found, strict=True)}


async def ends_of(admin: Admin, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets of those partitions that exist and have a leader."""
    if not partitions:
        return {}
    led = {
        TopicPartition(info.name, number)
        for info in await _topics(admin, {tp.topic for tp in partitions})
        for number, known in info.partitions.items()
        if known.leader >= 0
    }
    wanted = dict.fromkeys(sorted(partitions & led), int(OffsetSpec.LATEST))
    if not wanted:
        return {}
    return {tp: found.offset for tp, found in (await admin.list_offsets(wanted)).items()}


async def _topics(admin: Admin, names: set[str]) -> list[TopicInfo]:
    """Those of the named topics that exist. A few are described: all topics may have many thousands of partitions."""
    if len(names) > _AT_ONCE:
        return await admin.list_topics(include_internal=True)
    found = await asyncio.gather(*(admin.describe_topic(name) for name in names), return_exceptions=True)
    for failure in found:
        if isinstance(failure, BaseException) and not isinstance(failure, KafkaError):
            raise failure
    return [info for info in found if isinstance(info, TopicInfo)]


async def _committed(admin: Admin, group_id: str) -> dict[TopicPartition, int]:
    return {tp: o.offset for tp, o in (await admin.list_group_offsets(group_id)).items() if o.offset >= 0}


def _by_topic(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


def _address(name: str) -> str:
    return f"/groups/{encode_name(name)}"


ROUTES = [
    *page("/groups/{name}", group),
    *page("/groups", group_list),
    *change("/groups/{name}/reset", reset),
    *change("/groups/{name}/delete", delete),
]
