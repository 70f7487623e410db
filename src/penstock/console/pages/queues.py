"""Share groups, which are queues: the window of each share-partition record by record, and its workers."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client import dead_letters
from penstock.client.admin import Admin, ResourceType, ShareOffset
from penstock.client.errors import UsageError
from penstock.client.monitoring import CONFIG
from penstock.client.queue_advice import Advice, UnknownQueue, advise
from penstock.client.types import TopicPartition
from penstock.console import histories, resets, windows
from penstock.console.commands import command
from penstock.console.decoders import preview
from penstock.console.formats import plural
from penstock.console.names import encode_name
from penstock.console.pages.groups import behind_of, ends_of, lag_trends
from penstock.console.questions import Change, Form
from penstock.console.session import Session
from penstock.console.sorting import ordered
from penstock.console.web import Page, change, name_in, number_of, page, session_of
from penstock.wire.errors import KafkaError

NAVIGATION = [("/queues", "Queues", "q")]
_MOST_GROUPS = 200
_COLUMNS = ("queue", "state", "lag", "ageSeconds")
_MOST_WINDOWS = 50
_AT_ONCE = 16
_LIVE_SECONDS = 0.25  # with the reading, less than half a second behind the broker
_TYPES = ("share",)
_KINDS = tuple(kind for kind in resets.KINDS if kind != "shift")  # the command has no --shift-by for share groups
_MOST_LETTERS = 200
_PREVIEW = 200
_SETTINGS = {
    "share.record.lock.duration.ms": "lock_ms",
    "share.delivery.count.limit": "limit",
    "penstock.share.retry.backoff.ms": "backoff_ms",
    "penstock.share.retry.backoff.multiplier": "multiplier",
    "penstock.share.retry.backoff.max.ms": "backoff_max_ms",
}


async def queue_list(request: Request) -> Page:
    search = request.query_params.get("q", "")[:249]
    session = session_of(request)
    admin = await session.admin()
    every, known = await asyncio.gather(admin.list_groups(types=_TYPES), behind_of(session, "penstock_share_group"))
    groups = [group for group in every if search.lower() in group.group_id.lower()]
    groups.sort(key=lambda group: -known[group.group_id].lag if group.group_id in known else 0)  # of many, the worst
    few = asyncio.Semaphore(_AT_ONCE)

    async def offsets_of(group_id: str) -> dict[TopicPartition, ShareOffset]:
        async with few:
            try:
                return await admin.list_share_group_offsets(group_id)
            except KafkaError:
                return {}

    shown = groups[:_MOST_GROUPS]
    found = await asyncio.gather(*(offsets_of(group.group_id) for group in shown))
    lags = {
        group.group_id: sum(max(0, offset.lag) for offset in offsets.values())
        for group, offsets in zip(shown, found, strict=True)
    }
    trends = lag_trends(session, lags)
    rows = [
        {
            "queue": group.group_id,
            "state": group.state,
            "topics": sorted({tp.topic for tp in offsets}),
            "lag": lags[group.group_id],
            "lagPerSecond": trends.get(group.group_id),
            "ageSeconds": known[group.group_id].age_seconds if group.group_id in known else None,
        }
        for group, offsets in zip(shown, found, strict=True)
    ]
    rows.sort(key=lambda row: str(row["queue"]))
    rows, sort = ordered(rows, request.query_params.get("sort", ""), _COLUMNS, "lag")
    data = {"queues": rows, "sort": sort, "search": search, "left_out": len(groups) - len(shown)}
    return Page("queues.html", data, 2.0)


async def queue(request: Request) -> Page:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    described, offsets = await asyncio.gather(admin.describe_group(name), admin.list_share_group_offsets(name))
    if described.type.lower() not in _TYPES:
        raise HTTPException(404, f"{name} is a consumer group; it is under Groups.")
    pages = max(1, -(-len(offsets) // _MOST_WINDOWS))
    number = min(number_of(request.query_params.get("page", "1"), "The page", 1), pages)
    drawn = sorted(offsets)[(number - 1) * _MOST_WINDOWS : number * _MOST_WINDOWS]
    found = windows.read(await session.monitoring.read("/share-groups", group=name, records=windows.named(drawn)))
    shown = [window for window in found if (window["topic"], window["partition"]) in set(drawn)]
    ends = await ends_of(admin, set(offsets))
    lag = sum(max(0, offset.lag) for offset in offsets.values())
    advice = await _advice(session, name, len(described.members))
    arrivals, done = _rates(session, name, sum(ends.values()), lag)
    if advice is not None:
        arrivals, done = advice.arrivals_per_second, advice.done_per_second
    clients = {member.member_id: member.client_id for member in described.members}
    data = {
        "queue": name,
        "state": described.state,
        "lag": lag,
        "arrivals": arrivals,
        "done": done,
        "outlook": windows.outlook(
            len(described.members), lag, arrivals, done, advice, windows.obstacles(found, clients)
        ),
        "members": windows.workers(described.members, found),
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
        "retries": windows.retries(found),
        "windows": shown,
        "page": number,
        "pages": pages,
        "has_windows": await session.monitoring.is_there(),
    }
    is_live = request.url.path.endswith(".live")  # what only the rest of the page shows is not read twice a second
    extra = {
        "strips": [windows.strip(window, clients) for window in shown],
        "states": windows.STATES,
        "curve": None if is_live else await _curve(session, name),
        "letters": None if is_live else await _waiting_letters(session, name),
        "settings": {} if is_live else await _settings(admin, name),
        "topics": sorted({tp.topic for tp in offsets}),
        "kinds": _KINDS,
        "config": CONFIG,
    }
    return Page("queue.html", data, _LIVE_SECONDS, extra=extra)


async def _advice(session: Session, name: str, workers: int) -> Advice | None:
    """What the brokers' metrics of the last half minute say; None until there are two readings of them."""
    scrapes = await session.monitoring.recent()
    if len(scrapes) < 2:
        return None
    try:
        return advise(scrapes, name, workers)
    except UnknownQueue:
        return None


async def _waiting_letters(session: Session, name: str) -> dict[str, object] | None:
    """The queue's dead-letter topic, and how many letters wait there, up to a number; None without one."""
    admin = await session.admin()
    topic = await dead_letters.dead_letter_topic(admin, name)
    if topic is None:
        return None
    try:
        async with session.consumer() as consumer:
            found, more = await dead_letters.read_letters(admin, consumer, name, topic, limit=_MOST_LETTERS)
    except (KafkaError, UsageError):
        return {"topic": topic, "count": None, "more": False}  # it cannot be read, or too much else is being read
    return {"topic": topic, "count": len(found), "more": more}


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
    await admin.describe_group(name)  # who may not see it is described so, not that it has no dead letters
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
            "value": None if letter.record.value is None else preview(letter.record.value, _PREVIEW).text,
        }
        for letter in found
    ]
    data = {"queue": name, "topic": topic, "letters": rows, "more": more}
    return Page("dead_letters.html", data, extra={"config": dead_letters.TOPIC_CONFIG})


async def redrive(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    await admin.describe_group(name)  # who may not see it is described so, not that it has no dead letters
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
        done = f"Put back: {plural(outcome.back, 'record')}"
        return f"{done}; of {plural(outcome.gone, 'letter')} no record exists any more." if outcome.gone else f"{done}."

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
