"""Share groups, which are queues: the window of each share-partition record by record, and its workers."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TypedDict, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client import dead_letters
from penstock.client.admin import Admin, ResourceType, ShareOffset
from penstock.client.types import TopicPartition
from penstock.console import histories, resets
from penstock.console.commands import command
from penstock.console.monitoring import CONFIG
from penstock.console.names import encode_name
from penstock.console.pages.groups import ages_of, ends_of
from penstock.console.questions import Change, Form
from penstock.console.session import Session
from penstock.console.web import Page, change, name_in, number_of, page, session_of
from penstock.wire.errors import KafkaError

NAVIGATION = [("/queues", "Queues", "q")]
_MOST_GROUPS = 200
_MOST_WINDOWS = 50
_MOST_CELLS = 4_000
_AT_ONCE = 16
_LIVE_SECONDS = 0.3  # with the reading, less than half a second behind the broker
_TYPES = ("share",)
_KINDS = tuple(kind for kind in resets.KINDS if kind != "shift")  # the command has no --shift-by for share groups
_MOST_LETTERS = 200
_SETTINGS = {
    "share.record.lock.duration.ms": "lock_ms",
    "share.delivery.count.limit": "limit",
    "penstock.share.retry.backoff.ms": "backoff_ms",
    "penstock.share.retry.backoff.multiplier": "multiplier",
    "penstock.share.retry.backoff.max.ms": "backoff_max_ms",
}
STATES = ("AVAILABLE", "DELAYED", "ACQUIRED", "STAGED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED")


class Cell(TypedDict):
    offset: int
    state: str
    deliveryCount: int
    memberId: str
    remainingMs: int


class Window(TypedDict):
    topic: str
    partition: int
    startOffset: int
    endOffset: int
    logEndOffset: int
    waitingFetches: int
    maxRecordLocks: int
    deliveryCountLimit: int
    records: list[Cell]


async def queue_list(request: Request) -> Page:
    session = session_of(request)
    admin = await session.admin()
    groups, ages = await asyncio.gather(admin.list_groups(types=_TYPES), ages_of(session, "penstock_share_group"))
    few = asyncio.Semaphore(_AT_ONCE)

    async def offsets_of(group_id: str) -> dict[TopicPartition, ShareOffset]:
        async with few:
            try:
                return await admin.list_share_group_offsets(group_id)
            except KafkaError:
                return {}

    shown = groups[:_MOST_GROUPS]
    found = await asyncio.gather(*(offsets_of(group.group_id) for group in shown))
    rows = [
        {
            "queue": group.group_id,
            "state": group.state,
            "topics": sorted({tp.topic for tp in offsets}),
            "lag": sum(max(0, offset.lag) for offset in offsets.values()),
            "ageSeconds": ages.get(group.group_id),
        }
        for group, offsets in zip(shown, found, strict=True)
    ]
    rows.sort(key=lambda row: (-int(str(row["lag"])), str(row["queue"])))
    return Page("queues.html", {"queues": rows, "left_out": len(groups) - len(shown)}, 2.0)


async def queue(request: Request) -> Page:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    told, offsets = await asyncio.gather(admin.describe_group(name), admin.list_share_group_offsets(name))
    if told.type.lower() not in _TYPES:
        raise HTTPException(404, f"{name} is a consumer group; it is under Groups.")
    windows = cast(
        "list[Window]",
        [window for broker in await session.monitoring.read("/share-groups", group=name) for window in _list(broker)],
    )
    windows.sort(key=lambda window: (window["topic"], window["partition"]))
    acquired = [cell for window in windows for cell in window["records"] if cell["state"] == "ACQUIRED"]
    held = Counter(cell["memberId"] for cell in acquired)
    first_end: dict[str, int] = {}
    for cell in acquired:
        first_end[cell["memberId"]] = min(cell["remainingMs"], first_end.get(cell["memberId"], cell["remainingMs"]))
    ends = await ends_of(admin, set(offsets))
    lag = sum(max(0, offset.lag) for offset in offsets.values())
    arrivals, done = _rates(session, name, sum(ends.values()), lag)
    members = [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "partitions": len(member.assignment),
            "holds": held[member.member_id],
            "nextLockEndsSeconds": first_end[member.member_id] / 1000 if member.member_id in first_end else None,
        }
        for member in told.members
    ]
    data = {
        "queue": name,
        "state": told.state,
        "lag": lag,
        "arrivals": arrivals,
        "done": done,
        "advice": advice(len(members), lag, arrivals, done),
        "members": members,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "start": offset.start_offset,
                "end": ends.get(tp, -1),
                "lag": offset.lag,
            }
            for tp, offset in sorted(offsets.items())
        ],
        "retries": retries(windows),
        "windows": windows[:_MOST_WINDOWS],
        "left_out": max(0, len(windows) - _MOST_WINDOWS),
        "has_windows": await session.monitoring.is_there(),
    }
    is_live = request.url.path.endswith(".live")  # what only the rest of the page shows is not read twice a second
    extra = {
        "strips": [strip(window) for window in windows[:_MOST_WINDOWS]],
        "states": STATES,
        "curve": None if is_live else await _curve(session, name),
        "has_letters": None if is_live else await dead_letters.dead_letter_topic(admin, name),
        "settings": {} if is_live else await _settings(admin, name),
        "topics": sorted({tp.topic for tp in offsets}),
        "kinds": _KINDS,
        "config": CONFIG,
    }
    return Page("queue.html", data, _LIVE_SECONDS, extra=extra)


def strip(window: Window) -> dict[str, object]:
    """The window's records as runs that look alike, for drawing; a digit marks a delivery after the first."""
    runs: list[dict[str, object]] = []
    last: tuple[object, ...] = ()
    limit = window["deliveryCountLimit"]
    for cell in window["records"][:_MOST_CELLS]:
        seconds = -(-cell["remainingMs"] // 1000)
        looks = (cell["state"], cell["deliveryCount"], cell["memberId"], seconds)
        if looks != last:
            last = looks
            words = [cell["state"].lower()]
            words += [f"by {cell['memberId']}"] if cell["memberId"] else []
            words += [f"{seconds} s left"] if cell["remainingMs"] else []
            words += [f"delivery {cell['deliveryCount']} of {limit}"] if cell["deliveryCount"] else []
            open_ = cell["state"] in ("ACQUIRED", "AVAILABLE", "DELAYED") and cell["deliveryCount"] > 1
            mark = str(min(cell["deliveryCount"], 9)) if open_ else ""
            runs.append({"state": cell["state"].lower(), "words": ", ".join(words), "mark": mark, "offsets": []})
        cast("list[int]", runs[-1]["offsets"]).append(cell["offset"])
    return {"runs": runs, "counts": Counter(cell["state"].lower() for cell in window["records"])}


def retries(windows: list[Window]) -> list[dict[str, object]]:
    """Records that were delivered before and are not done: how many by delivery, and when the next of them is due."""
    found: dict[tuple[int, int], list[Cell]] = {}
    for window in windows:
        for cell in window["records"]:
            again = cell["deliveryCount"] > 1 or (cell["deliveryCount"] == 1 and cell["state"] != "ACQUIRED")
            if again and cell["state"] in ("ACQUIRED", "AVAILABLE", "DELAYED"):
                found.setdefault((cell["deliveryCount"], window["deliveryCountLimit"]), []).append(cell)
    rows: list[dict[str, object]] = []
    for (deliveries, limit), cells in sorted(found.items(), reverse=True):
        delayed = [cell["remainingMs"] for cell in cells if cell["state"] == "DELAYED"]
        rows.append(
            {
                "deliveries": deliveries,
                "limit": limit,
                "records": len(cells),
                "acquired": sum(cell["state"] == "ACQUIRED" for cell in cells),
                "delayed": len(delayed),
                "nextSeconds": min(delayed) / 1000 if delayed else None,
            }
        )
    return rows


def advice(workers: int, lag: int, arrivals: float | None, done: float | None) -> str:
    """How many workers the queue needs, from what arrives and what is done now."""
    if not workers:
        return f"{lag:,} records wait, and no worker takes them." if lag else "No worker is here, and nothing waits."
    if arrivals is None or done is None:
        return "The rates are not known yet; a few seconds will tell."
    if not lag:
        return f"{workers} workers keep up."
    if done <= 0:
        return f"{lag:,} records wait, and the {workers} workers finish none: look at what they do."
    if done >= arrivals * 1.05:
        return f"The {workers} workers catch up: done in about {math.ceil(lag / max(done - arrivals, 0.1)):,} s."
    needed = max(workers + 1, math.ceil(workers * arrivals / done * 1.2))
    return f"The {workers} workers fall behind; {needed} would keep up with what arrives, with a fifth to spare."


async def reset(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    members = (await admin.describe_group(name)).members
    if members:
        raise HTTPException(409, f"Queue {name} has {len(members)} workers; stop them first: it is reset without any.")
    words, partitions = await resets.chosen(admin, form)
    kind, number, options = resets.options_of(form)
    if kind not in _KINDS:
        raise HTTPException(400, f"Say where to: one of {', '.join(_KINDS)}.")
    current = {tp: offset.start_offset for tp, offset in (await admin.list_share_group_offsets(name)).items()}
    found = await resets.targets(admin, partitions, current, kind, number)

    async def perform(_: Form) -> str:
        await admin.alter_share_group_offsets(name, found)
        return f"Queue {name} begins at its new offsets in {words}."

    rows = [(str(tp), current.get(tp, -1), new) for tp, new in found.items()]
    line = command(session, "share", "reset-offsets", name, "--topic", words, *options, "--execute")
    columns = ("Partition", "Start offset", "New start offset")
    question = f"Reset queue {name} in {words}, and forget what is in flight?"
    return Change(question, line, _address(name), perform, "Reset", columns=columns, rows=rows)


async def delete(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)

    async def perform(_: Form) -> str:
        for error in (await (await session.admin()).delete_groups([name])).values():
            if error is not None:
                raise error
        return f"Queue {name} is deleted."

    line = command(session, "share", "delete", name)
    question = f"Delete queue {name} and its state?"
    return Change(question, line, _address(name), perform, "Delete it", danger=True, onward="/queues")


async def letters(request: Request) -> Page:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    await admin.describe_group(name)  # who may not see it is told so, not that it has no dead letters
    topic = await dead_letters.dead_letter_topic(admin, name)
    found: list[dead_letters.Letter] = []
    more = False
    if topic is not None:
        async with session.consumer() as consumer:
            found, more = await dead_letters.read_letters(admin, consumer, name, topic, limit=_MOST_LETTERS)
    rows = [
        {
            "partition": letter.place.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
            "record": {"topic": letter.topic, "partition": letter.partition, "offset": letter.record_offset},
            "deliveries": letter.deliveries,
            "message": letter.message,
        }
        for letter in found
    ]
    data = {"queue": name, "topic": topic, "letters": rows, "more": more}
    return Page("dead_letters.html", data, extra={"config": dead_letters.TOPIC_CONFIG})


async def redrive(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    await admin.describe_group(name)  # who may not see it is told so, not that it has no dead letters
    topic = await dead_letters.dead_letter_topic(admin, name)
    if topic is None:
        raise HTTPException(404, f"Queue {name} has no dead-letter topic.")
    words, only = ["share", "redrive", name], None
    if form.get("offset"):
        only = number_of(form.get("partition", ""), "Partition"), number_of(form["offset"], "The offset")
        words += ["--letter", f"{only[0]}:{only[1]}"]

    async def perform(_: Form) -> str:
        async with session.consumer() as consumer:
            outcome = await dead_letters.redrive(admin, consumer, await session.producer(), name, topic, only=only)
        gone = (
            f"; {outcome.gone} are nowhere any more, neither in their topics nor in the letters" if outcome.gone else ""
        )
        return f"Put back: {outcome.back} records{gone}."

    what = f"the letter {topic}-{only[0]} offset {only[1]}" if only else f"all dead letters of queue {name}"
    question = f"Put back {what}? Every group that reads the topic gets the records again."
    return Change(question, command(session, *words), f"{_address(name)}/dead-letters", perform, "Put back")


async def _curve(session: Session, name: str) -> dict[str, object] | None:
    """The lag of the last hour, where a broker remembers it."""
    return histories.curve(histories.read(await session.monitoring.read("/groups/history", group=name))[0])


async def _settings(admin: Admin, name: str) -> dict[str, str]:
    """The configs that say how often and how fast a record is delivered again."""
    try:
        configs = await admin.describe_configs(ResourceType.GROUP, name)
    except KafkaError:
        return {}
    return {short: (configs[long].value or "") if long in configs else "" for long, short in _SETTINGS.items()}


def _rates(session: Session, name: str, end: int, lag: int) -> tuple[float | None, float | None]:
    rates = session.rates.update({f"end of {name}": end, f"done of {name}": end - lag})
    return rates.get(f"end of {name}"), rates.get(f"done of {name}")


def _list(told: object) -> list[object]:
    return told if isinstance(told, list) else []


def _address(name: str) -> str:
    return f"/queues/{encode_name(name)}"


ROUTES = [
    *page("/queues/{name}/dead-letters", letters),
    *change("/queues/{name}/redrive", redrive),
    *page("/queues/{name}", queue),
    *page("/queues", queue_list),
    *change("/queues/{name}/reset", reset),
    *change("/queues/{name}/delete", delete),
]
