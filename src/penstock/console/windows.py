"""The windows of a queue as brokers show them (`/share-groups?group=ID`), and what follows from them for people: the
strip of each share-partition, what each worker does, and which records are delivered again.

Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict, cast

from penstock.client.admin.groups import MemberDescription
from penstock.client.queue_advice import Advice
from penstock.client.types import TopicPartition
from penstock.console.formats import about, count, plural, span

STATES = ("AVAILABLE", "DELAYED", "ACQUIRED", "STAGED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED")
_OPEN = ("ACQUIRED", "AVAILABLE", "DELAYED")
_MOST_CELLS = 4_000
_SILENT_SECONDS = 60
_MOST_OBSTACLES = 3


class Records(TypedDict):
    """Neighbouring records that are alike."""

    offset: int
    count: int
    state: str
    deliveryCount: int
    memberId: str
    remainingMs: int


class Count(TypedDict):
    """How many records are in a state after so many deliveries, and when the next one backs off no more."""

    state: str
    deliveryCount: int
    count: int
    nextMs: int | None


class MemberView(TypedDict):
    """What one member does with one share-partition."""

    memberId: str
    heldRecords: int
    oldestHeldMs: int | None
    nextLockEndMs: int | None
    deliveriesPerSecond: float
    acknowledgementsPerSecond: float
    lastAcknowledgementMs: int | None


class Window(TypedDict):
    topic: str
    partition: int
    startOffset: int
    endOffset: int
    logEndOffset: int
    waitingFetches: int
    maxRecordLocks: int
    deliveryCountLimit: int
    counts: list[Count]
    oldest: Records | None
    members: list[MemberView]
    records: NotRequired[list[Records]]


class Run(TypedDict):
    """Neighbouring records that look alike, from an offset on."""

    state: str
    words: str
    mark: str
    first: int
    length: int


def read(views: Iterable[object]) -> list[Window]:
    """The windows of all brokers, in order."""
    windows = [cast("Window", window) for view in views if isinstance(view, list) for window in view]
    return sorted(windows, key=lambda window: (window["topic"], window["partition"]))


def named(partitions: Iterable[TopicPartition]) -> str:
    """The windows of these partitions as the broker's query names them."""
    numbers: dict[str, list[str]] = {}
    for tp in partitions:
        numbers.setdefault(tp.topic, []).append(str(tp.partition))
    return ";".join(f"{topic}:{','.join(each)}" for topic, each in numbers.items()) or "none"


def strip(window: Window, clients: dict[str, str]) -> dict[str, object]:
    """The window's records as runs that look alike, for drawing; a digit marks a delivery after the first.

    `clients` are the client ids of members, which say more than member ids.
    """
    runs: list[Run] = []
    last: tuple[object, ...] = ()
    limit, room = window["deliveryCountLimit"], _MOST_CELLS
    for found in window.get("records", []):
        seconds = -(-found["remainingMs"] // 1000)
        looks = (found["state"], found["deliveryCount"], found["memberId"], seconds)
        if looks != last:
            last = looks
            words = [found["state"].lower()]
            words += [f"by {clients.get(found['memberId']) or found['memberId']}"] if found["memberId"] else []
            words += [f"{seconds} s left"] if found["remainingMs"] else []
            words += [f"delivery {found['deliveryCount']} of {limit}"] if found["deliveryCount"] else []
            is_again = found["state"] in _OPEN and found["deliveryCount"] > 1
            mark = str(min(found["deliveryCount"], 9)) if is_again else ""
            state = found["state"].lower()
            runs.append(Run(state=state, words=", ".join(words), mark=mark, first=found["offset"], length=0))
        runs[-1]["length"] += min(found["count"], room)
        room -= min(found["count"], room)
        if not room:
            break
    counts: Counter[str] = Counter()
    for each in window["counts"]:
        counts[each["state"]] += each["count"]
    return {"runs": runs, "counts": {state.lower(): counts[state] for state in STATES if counts[state]}}


def workers(members: Sequence[MemberDescription], windows: Sequence[Window]) -> list[dict[str, object]]:
    """What each worker has and does, over all share-partitions; those that have left and still hold records too."""
    views: dict[str, list[MemberView]] = {}
    first_end: dict[str, int] = {}
    for window in windows:
        for view in window["members"]:
            views.setdefault(view["memberId"], []).append(view)
            left = view["nextLockEndMs"]
            if left is not None:
                first_end[view["memberId"]] = min(left, first_end.get(view["memberId"], left))
    known = {member.member_id: member for member in members}
    gone = [member_id for member_id, found in views.items() if member_id not in known and _held(found)]
    rows = []
    for member_id in [*sorted(known, key=lambda each: (known[each].client_id, each)), *gone]:
        member, found = known.get(member_id), views.get(member_id, [])
        held = _held(found)
        last = min((each for view in found if (each := view["lastAcknowledgementMs"]) is not None), default=None)
        oldest = max((each for view in found if (each := view["oldestHeldMs"]) is not None), default=None)
        is_silent = held > 0 and oldest is not None and min(oldest, last or oldest) > _SILENT_SECONDS * 1000
        rows.append(
            {
                "member": member_id,
                "client": "" if member is None else member.client_id,
                "host": "" if member is None else member.host.lstrip("/"),
                "isGone": member is None,
                "isSilent": is_silent,
                "partitions": 0 if member is None else len(member.assignment),
                "holds": held,
                "oldestHeldSeconds": None if oldest is None else oldest / 1000,
                "takesPerSecond": sum(view["deliveriesPerSecond"] for view in found) if found else None,
                "completesPerSecond": sum(view["acknowledgementsPerSecond"] for view in found) if found else None,
                "lastAcknowledgementSeconds": None if last is None else last / 1000,
                "nextLockEndsSeconds": first_end[member_id] / 1000 if member_id in first_end else None,
            }
        )
    return rows


def _held(views: Iterable[MemberView]) -> int:
    return sum(view["heldRecords"] for view in views)


def retries(windows: Iterable[Window]) -> list[dict[str, object]]:
    """Records that were delivered before and are not done: how many by delivery, and when the next of them is due."""
    found: dict[tuple[int, int], list[Count]] = {}
    for window in windows:
        for each in window["counts"]:
            again = each["deliveryCount"] > 1 or (each["deliveryCount"] == 1 and each["state"] != "ACQUIRED")
            if again and each["state"] in _OPEN:
                found.setdefault((each["deliveryCount"], window["deliveryCountLimit"]), []).append(each)
    rows: list[dict[str, object]] = []
    for (deliveries, limit), counts in sorted(found.items(), reverse=True):
        next_ms = min((each["nextMs"] for each in counts if each["nextMs"] is not None), default=None)
        rows.append(
            {
                "deliveries": deliveries,
                "limit": limit,
                "records": sum(each["count"] for each in counts),
                "acquired": sum(each["count"] for each in counts if each["state"] == "ACQUIRED"),
                "delayed": sum(each["count"] for each in counts if each["state"] == "DELAYED"),
                "nextSeconds": None if next_ms is None else next_ms / 1000,
            }
        )
    return rows


def obstacles(windows: Iterable[Window], clients: dict[str, str]) -> list[str]:
    """The share-partitions that hand out nothing before their oldest record is done, however many workers there are."""
    found = []
    for window in windows:
        oldest = window["oldest"]
        if window["endOffset"] - window["startOffset"] < window["maxRecordLocks"] or oldest is None:
            continue
        left = span(oldest["remainingMs"] / 1000)
        words = {
            "ACQUIRED": f"is held by {clients.get(oldest['memberId']) or oldest['memberId']} for at most {left} more",
            "DELAYED": f"backs off, and is delivered again in {left}",
        }.get(oldest["state"], "waits for a worker")
        found.append(
            f"{window['topic']}-{window['partition']} is full: nothing more is taken from it before its oldest record "
            f"is done, and offset {count(oldest['offset'])} {words}."
        )
    if len(found) > _MOST_OBSTACLES:
        found[_MOST_OBSTACLES - 1 :] = [f"{count(len(found) - _MOST_OBSTACLES + 1)} other partitions are full too."]
    return found


def outlook(
    workers: int,
    lag: int,
    arrivals: float | None,
    done: float | None,
    advice: Advice | None,
    obstacles: Sequence[str] = (),
) -> list[str]:
    """Where the queue is going, and how many workers it needs, in sentences. `advice` is there with metrics only.

    More workers are no remedy where there are `obstacles`.
    """
    if not workers:
        return [f"{plural(lag, 'record')} to do, and no worker." if lag else "No worker, and nothing to do."]
    if not lag:
        return [f"{plural(workers, 'worker')}, and nothing waits."]
    if arrivals is None or done is None:
        return ["The rates are being measured."]
    if done <= 0:
        sentences = [f"{plural(workers, 'worker')}, and none of them completes a record: look at what they do."]
    elif done > arrivals * 1.02:
        sentences = [f"At this pace it is caught up in {about(lag / (done - arrivals))}."]
    elif done >= arrivals * 0.98:
        sentences = [f"{plural(workers, 'worker')} {_keep(workers)} pace with what arrives, and the backlog stays."]
    else:
        sentences = [f"It falls behind by {count(round(arrivals - done, 1))} records a second."]
    if obstacles:
        return [*sentences, *obstacles]
    if advice is not None and advice.handling_seconds is not None and advice.workers_to_keep_up is not None:
        needed, soon = advice.workers_to_keep_up, advice.workers_to_catch_up
        sentence = (
            f"A worker has a record for {_took(advice.handling_seconds)}; {plural(needed, 'worker')} would keep up"
        )
        if soon is not None and soon > needed:
            sentence += f", {count(soon)} would catch up within {span(advice.catch_up_seconds)}"
        sentences.append(f"{sentence}.")
    return sentences


def _keep(workers: int) -> str:
    return "keeps" if workers == 1 else "keep"


def _took(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else span(seconds)
