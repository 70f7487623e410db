"""The messages of a topic: searched, followed, looked at one by one, produced, and produced again."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from functools import cached_property
from typing import TypeAlias
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.types import ConsumerRecord, OffsetSpec, TopicPartition
from penstock.console import filters, searching
from penstock.console.commands import command
from penstock.console.decoders import FORMATS, avro, decode_record, preview
from penstock.console.formats import plural
from penstock.console.moments import MalformedMoment, milliseconds
from penstock.console.names import encode_name
from penstock.console.questions import Change, Form
from penstock.console.searching import Found, Place, Places
from penstock.console.session import Session
from penstock.console.web import Page, change, name_in, number_of, page, read_form, session_of, stream, web_of

_KEEP = 500  # rows of a page
_FEW = 50  # rows of the newest records
_PREVIEW = 1_000
_WHOLE = 32 << 10  # values up to this size are decoded whole, even if only their beginning is shown
_MAX_ANSWER = 16 << 20
_JSON_SECONDS = 20.0
_MOST_SCHEMAS = 200
_MAX_CHARACTERS = 2 << 20
Row: TypeAlias = dict[str, object]
STARTS = ("newest", "beginning", "offset", "time", "live")
KINDS = ("auto", "text", "key", "value", "header", "expression")

# Schemas belong to a session, so that what one person has given is read by nobody else.
_schemas: WeakKeyDictionary[Session, dict[str, tuple[str, avro.Schema]]] = WeakKeyDictionary()


async def messages(request: Request) -> Page:
    topic, criteria = name_in(request), _Search(request)
    if request.url.path.endswith(".json"):
        return Page("messages.html", await _at_once(request, topic, criteria))
    info = await (await session_of(request).admin()).describe_topic(topic)
    problem = ""
    try:
        criteria.check()
        criteria.partitions(sorted(info.partitions))
    except (filters.FilterError, MalformedMoment, HTTPException) as error:
        problem = error.detail if isinstance(error, HTTPException) else str(error)
    query = [item for item in request.query_params.multi_items() if item[0] not in ("notice", "resume", "more")]
    extra = {
        "asked": criteria,
        "stream": f"/topics/{encode_name(topic)}/messages.live?{urlencode(query)}",
        "keep": _KEEP,
        "formats": FORMATS,
        "schema": _known(session_of(request)).get(topic, ("", None))[0],
        "last": len(info.partitions) - 1,
        "problem": problem,
    }
    return Page("messages.html", {"topic": topic}, extra=extra, status=400 if problem else 200)


class _Search:
    """What the form of the page asks for."""

    def __init__(self, request: Request) -> None:
        get = request.query_params.get
        self.start = get("from", "newest")
        self.at = get("at", "").strip()[:40]
        self.partition = get("partition", "").strip()[:200]
        self.by = get("by", "auto")
        self.text = get("q", "")[: filters.MAX_LENGTH + 1]
        self.format = get("format", "auto")
        self.committed = get("committed") == "1"
        self.resume = get("resume", "")
        self.more = get("more") == "1"
        if self.start not in STARTS or self.by not in KINDS or self.format not in FORMATS:
            raise HTTPException(400, f"'from' is one of {STARTS}, 'by' one of {KINDS}, 'format' one of {FORMATS}.")

    @cached_property
    def filter(self) -> filters.Filter | None:
        text = self.text
        if not text.strip():
            return None
        if self.by == "expression" or (self.by == "auto" and filters.is_expression(text)):
            return filters.parse(text)
        if self.by in ("auto", "text"):
            return filters.containing(text)
        if self.by == "header":
            name, equals, value = text.partition("=")
            field = f'header["{_escaped(name.strip())}"]'
            return filters.parse(f'{field} contains "{_escaped(value.strip())}"' if equals else f"{field} exists")
        return filters.parse(f'{self.by} contains "{_escaped(text)}"')

    def check(self) -> None:
        """Raise what is wrong with the place and the filter, before anything is read."""
        _ = self.filter
        if self.start == "time":
            milliseconds(self.at)
        elif self.start == "offset":
            number_of(self.at or "0", "The offset")

    def partitions(self, known: list[int]) -> list[int]:
        if not self.partition:
            return known
        numbers = [number_of(word, "Partition", 0, known[-1]) for word in self.partition.split(",")]
        return sorted(set(numbers))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


async def _place(admin: Admin, places: Places, topic: str, criteria: _Search) -> Place:
    """Where to begin, and where to stop: at the end as it is now, or never."""
    info = await admin.describe_topic(topic)
    numbers = criteria.partitions(sorted(info.partitions))
    led = [TopicPartition(topic, number) for number in numbers if info.partitions[number].leader >= 0]
    if criteria.resume:
        place = places.find(criteria.resume)
        if place is None or place.topic != topic or not set(place.ranges) <= {tp.partition for tp in led}:
            raise HTTPException(400, "The search that was interrupted is not known any more; start it again.")
        return place
    first, end = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.EARLIEST))),
        admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.LATEST))),
    )
    firsts = {tp.partition: found.offset for tp, found in first.items()}
    ends = {tp.partition: found.offset for tp, found in end.items()}
    at: int | dict[int, int] = 0
    if criteria.start == "live":
        at = ends
    elif criteria.start == "offset":
        at = number_of(criteria.at or "0", "The offset")
    elif criteria.start == "time":
        by_time = await admin.list_offsets(dict.fromkeys(led, milliseconds(criteria.at)))
        at = {tp.partition: found.offset for tp, found in by_time.items() if found.offset >= 0}
    elif criteria.start == "newest" and criteria.filter is None:
        return Place(topic, searching.few_before(firsts, ends, _FEW), firsts=firsts)
    ranges = searching.ranges_of(firsts, ends, at, endless=criteria.start == "live")
    total = sum(end - at for at, end in ranges.values()) if criteria.start != "live" else 0
    return Place(topic, ranges, total=total)


async def _events(
    session: Session, consumer: Consumer[bytes, bytes], place: Place, criteria: _Search, show: int, cut: int
) -> AsyncIterator[tuple[Found, list[Row]]]:
    """What is found, with a row for each record. Of large values the first `cut` characters are shown."""

    def row(record: ConsumerRecord[bytes, bytes]) -> Row:
        return _row(record, criteria, session, cut)

    if criteria.start == "newest" and criteria.filter is None:
        rows = await searching.newest(consumer, place, _FEW, row)
        yield Found(place), rows
        return
    async for found in searching.search(consumer, place, criteria.filter, show):
        yield found, [row(record) for record in found.records]


async def _at_once(request: Request, topic: str, criteria: _Search) -> dict[str, object]:
    """The JSON twin: hits until there are enough or until time is up, and where to go on."""
    session = session_of(request)
    place = await _place(await session.admin(), session.places, topic, criteria)
    limit = number_of(request.query_params.get("limit", "100"), "limit", 1, 1_000)
    cut = min(max(_PREVIEW, _MAX_ANSWER // limit), _MAX_CHARACTERS - 1)
    rows: list[Row] = []
    search, at = session.places.begin(), place.copy()
    async with session.consumer(committed=criteria.committed) as consumer:
        try:
            async with asyncio.timeout(_JSON_SECONDS if criteria.start != "live" else 5.0):
                async for found, more in _events(session, consumer, place, criteria, limit, cut):
                    rows += more
                    at = found.place.copy()  # what is read after it has not been handed out
        except TimeoutError:
            pass
    return {
        "topic": topic,
        "records": rows[:limit],
        "scanned": at.scanned,
        "total": at.total,
        "hits": at.hits,
        "resume": session.places.keep(search, at) if at.ranges else None,
    }


async def live(request: Request) -> Response:
    topic, criteria = name_in(request), _Search(request)
    session = session_of(request)
    place = await _place(await session.admin(), session.places, topic, criteria)
    return stream(request, _search_events(request, session, place, criteria))


async def _search_events(
    request: Request, session: Session, place: Place, criteria: _Search
) -> AsyncIterator[tuple[str, object]]:
    """Rows as HTML, and progress."""
    search = session.places.begin()
    yield "progress", _progress(Found(place), criteria, session.places.keep(search, place))
    template = web_of(request).templates.get_template("message_rows.html")
    async with session.consumer(committed=criteria.committed) as consumer:
        show = _KEEP if criteria.more else max(0, _KEEP - place.hits)
        async for found, rows in _events(session, consumer, place, criteria, show, _PREVIEW):
            if rows:
                if criteria.start == "live":
                    rows.reverse()
                yield "rows", template.render(rows=rows, topic=place.topic, formats="")
            yield "progress", _progress(found, criteria, session.places.keep(search, found.place))


def _progress(found: Found, criteria: _Search, resume: str) -> dict[str, object]:
    place = found.place
    if criteria.start == "live":
        text = f"following · {plural(place.hits, 'record')}" + (" found" if criteria.filter else "")
    elif criteria.filter is None:
        text = plural(place.hits, "record")
    else:
        text = f"{place.hits:,} found in {place.scanned:,} of {plural(place.total, 'record')}"
        if place.hits > _KEEP:
            text += f", the first {_KEEP} shown"
        if found.seconds >= 0.1:
            text += f" · {found.seconds:.1f} s"
    return {
        "text": text,
        "done": place.scanned,
        "total": place.total if criteria.filter is not None else 0,
        "resume": resume,
        "more": bool(place.ranges) and criteria.filter is None,
    }


def _row(record: ConsumerRecord[bytes, bytes], criteria: _Search, session: Session, limit: int) -> Row:
    schema = _known(session).get(record.topic, ("", None))[1]
    if limit < _MAX_CHARACTERS and len(record.value or b"") > max(limit, _WHOLE):
        key, _ = decode_record(record.topic, record.key, None, criteria.format)
        value = preview(record.value or b"", limit)
    else:
        key, value = decode_record(record.topic, record.key, record.value, criteria.format, schema)
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _cut(key.text, limit),
        "value": _cut(value.text, limit),
        "keyFormat": key.format,
        "valueFormat": value.format,
        "problem": value.problem,
        "headers": [[name, _cut(_text(held), limit)] for name, held in record.headers[:50]],
        "size": len(record.value or b""),
    }


def _cut(text: str | None, limit: int) -> str | None:
    return text if text is None or len(text) <= limit else text[:limit] + "…"


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex(" ")


# One record


async def message(request: Request) -> Page:
    topic, criteria, session = name_in(request), _Search(request), session_of(request)
    record = await _one(request)
    return Page(
        "message.html",
        {"topic": topic, **_row(record, criteria, session, _MAX_CHARACTERS)},
        extra={"asked": criteria, "formats": FORMATS, "is_text": _is_text(record), "schema": ""},
    )


def _is_text(record: ConsumerRecord[bytes, bytes]) -> bool:
    try:
        for part in (record.key, record.value, *(held for _, held in record.headers)):
            (part or b"").decode()
    except UnicodeDecodeError:
        return False
    return len(record.value or b"") < 100_000


async def _one(request: Request) -> ConsumerRecord[bytes, bytes]:
    topic = name_in(request)
    partition = number_of(str(request.path_params["partition"]), "Partition", 0, 2**31 - 1)
    offset = number_of(str(request.path_params["offset"]), "The offset")
    return await read_one(session_of(request), topic, partition, offset)


async def read_one(session: Session, topic: str, partition: int, offset: int) -> ConsumerRecord[bytes, bytes]:
    """One record; not found where its offset holds none, or none any more."""
    missing = HTTPException(404, f"{topic}-{partition} has no record at offset {offset}; it may have been deleted.")
    admin = await session.admin()
    if partition not in (await admin.describe_topic(topic)).partitions:
        raise HTTPException(404, f"{topic} has no partition {partition}.")
    tp = TopicPartition(topic, partition)
    first = (await admin.list_offsets({tp: int(OffsetSpec.EARLIEST)}))[tp].offset
    end = (await admin.list_offsets({tp: int(OffsetSpec.LATEST)}))[tp].offset
    if not first <= offset < end:
        raise missing
    async with session.consumer() as consumer:
        place = Place(topic, {partition: (offset, offset + 1)})
        async for found in searching.search(consumer, place, None, 1):
            for record in found.records:
                return record
    raise missing


# Producing


async def produce_form(request: Request) -> Page:
    topic, session = name_in(request), session_of(request)
    await (await session.admin()).describe_topic(topic)
    again = request.query_params.get("again", "")
    fields = {"key": "", "value": "", "headers": "", "partition": ""}
    if again:
        partition, _, offset = again.partition("-")
        record = await read_one(session, topic, number_of(partition, "Partition"), number_of(offset, "The offset"))
        fields = {
            "key": _text(record.key) or "",
            "value": _text(record.value) or "",
            "headers": "\n".join(f"{name}={_text(held) or ''}" for name, held in record.headers),
            "partition": partition,
        }
    return Page("produce.html", {"topic": topic}, extra={"fields": fields})


async def produce(request: Request, form: Form) -> Change:
    session, topic = session_of(request), name_in(request)
    info = await (await session.admin()).describe_topic(topic)
    partition = None
    if form.get("partition", "").strip():
        partition = number_of(form["partition"].strip(), "Partition", 0, max(info.partitions))
    key = form.get("key", "").encode() if form.get("key") else None
    value = None if form.get("tombstone") else form.get("value", "").replace("\r\n", "\n").encode()
    headers = _headers(form.get("headers", ""))

    async def perform(_: Form) -> str:
        producer = await session.producer()
        sent = await producer.send_and_wait(topic, value, key=key, partition=partition, headers=headers)
        return f"Produced to {topic}-{sent.partition} at offset {sent.offset}."

    words: list[object] = ["produce", topic]
    words += ["--partition", partition] if partition is not None else []
    words += [word for name, held in headers for word in ("-H", f"{name}={(held or b'').decode()}")]
    if value is None:
        line = f"echo {shlex.quote(json.dumps({'key': form.get('key', ''), 'value': None}))} | "
        line += command(session, *words, "--json")
    else:
        words += ["--key", form.get("key", "")] if key is not None else []
        line = command(session, *words, "--", value.decode()[:2_000])
    columns, rows = ("Part", "Bytes"), [("key", _size(key)), ("value", _size(value))]
    return Change(f"Produce a record to {topic}?", line, _address(topic), perform, "Produce", False, columns, rows)


async def again(request: Request, form: Form) -> Change:
    session, topic, record = session_of(request), name_in(request), await _one(request)

    async def perform(_: Form) -> str:
        producer = await session.producer()
        sent = await producer.send_and_wait(
            topic, record.value, key=record.key, partition=record.partition, headers=list(record.headers)
        )
        return f"Produced again, to {topic}-{sent.partition} at offset {sent.offset}."

    place = f"{record.partition}/{record.offset}"
    reading = ["--partition", record.partition, "--from", record.offset, "--max", 1, "--json"]
    line = command(session, "consume", topic, *reading) + " | " + command(session, "produce", topic, "--json")
    rows = [("key", _size(record.key)), ("value", _size(record.value)), ("headers", len(record.headers))]
    return Change(
        f"Produce the record {topic}-{record.partition} offset {record.offset} again, byte for byte?",
        line,
        f"{_address(topic)}/{place}",
        perform,
        "Produce again",
        False,
        ("Part", "Size"),
        rows,
    )


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals:
                raise HTTPException(400, f"{line[:80]!r} is not NAME=VALUE.")
            found.append((name.strip(), value.strip().encode()))
    return found


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data):,} bytes"


# Schemas


async def set_schema(request: Request) -> Response:
    """Keep an Avro schema for the values of a topic, until the console stops. It changes nothing in the cluster."""
    form, topic = await read_form(request), name_in(request)
    known = _known(session_of(request))
    text = form.get("schema", "").strip()
    known.pop(topic, None)
    if text:
        known[topic] = (text, avro.parse_schema(text))
        while len(known) > _MOST_SCHEMAS:
            known.pop(next(iter(known)))
    return RedirectResponse(f"{_address(topic)}?format={'avro' if text else 'auto'}", 303)


def _known(session: Session) -> dict[str, tuple[str, avro.Schema]]:
    return _schemas.setdefault(session, {})


def _address(topic: str) -> str:
    return f"/topics/{encode_name(topic)}/messages"


ROUTES = [
    Route("/topics/{name}/messages.live", live),
    Route("/topics/{name}/schema", set_schema, methods=["POST"]),
    *page("/topics/{name}/messages/{partition:int}/{offset:int}", message),
    *page("/topics/{name}/produce", produce_form),
    *page("/topics/{name}/messages", messages),
    *change("/topics/{name}/produce", produce),
    *change("/topics/{name}/messages/{partition:int}/{offset:int}/again", again),
]
