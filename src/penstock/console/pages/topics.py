"""Topics: the list, one topic's partitions and configs, and the changes of both."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client.admin import ConfigSource, ResourceType
from penstock.client.types import TopicPartition
from penstock.console import readers
from penstock.console.commands import command
from penstock.console.formats import count, meaning
from penstock.console.names import encode_name
from penstock.console.questions import Change, Form
from penstock.console.readings import read_both, read_offsets, topic_rates
from penstock.console.sorting import ordered
from penstock.console.web import Page, change, field_of, name_in, number_of, page, session_of

NAVIGATION = [("/topics", "Topics", "t")]
_MOST_TOPICS = 1_000
_PARTITIONS_A_PAGE = 500
_COLUMNS = ("name", "partitions", "records", "rate", "bytes", "groups", "lag")
_PARTITION_COLUMNS = ("partition", "end", "records", "bytes")
_LIVE_SECONDS = 2.0
_SLOW_LIVE_SECONDS = 10.0  # with thousands of partitions, of which every reading takes a while
_MANY_PARTITIONS = 2_000


async def topic_list(request: Request) -> Page:
    search = request.query_params.get("q", "")[:249]
    internal = bool(request.query_params.get("internal"))
    session = session_of(request)
    admin = await session.admin()
    every = await admin.list_topics(include_internal=internal)
    found = [topic for topic in every if search.lower() in topic.name.lower()]
    shown = found[:_MOST_TOPICS]
    (offsets, sizes), lags = await asyncio.gather(read_both(admin, shown), readers.lags_of(session))
    rates = topic_rates(session.rates, offsets)
    rows = []
    for topic in shown:
        partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
        rows.append(
            {
                "name": topic.name,
                "internal": topic.is_internal,
                "partitions": len(partitions),
                "replicas": max((len(info.replicas) for info in topic.partitions.values()), default=0),
                "leaderless": sum(info.leader < 0 for info in topic.partitions.values()),
                "records": sum(max(offsets.records(tp), 0) for tp in partitions),
                "rate": rates.get(topic.name),
                "bytes": None if sizes is None else sum(sizes.get(tp, 0) for tp in partitions),
                "groups": len(lags.get(topic.name, ())),
                "lag": max((reader.lag for reader in lags.get(topic.name, ())), default=None),
            }
        )
    rows, sort = ordered(rows, request.query_params.get("sort", ""), _COLUMNS, "name")
    data = {
        "topics": rows,
        "sort": sort,
        "search": search,
        "internal": internal,
        "left_out": len(found) - len(shown),
        "sizes": sizes is not None,
    }
    return Page("topics.html", data, _live_seconds(sum(len(topic.partitions) for topic in shown)))


async def topic(request: Request) -> Page:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    info = await admin.describe_topic(name)
    (offsets, sizes), lags = await asyncio.gather(read_both(admin, [info]), readers.lags_of(session))
    pages = max(1, -(-len(info.partitions) // _PARTITIONS_A_PAGE))
    number = number_of(request.query_params.get("page", "1"), "page", 1, pages)
    begin = (number - 1) * _PARTITIONS_A_PAGE
    rows = []
    for partition in sorted(info.partitions):
        tp, known = TopicPartition(name, partition), info.partitions[partition]
        rows.append(
            {
                "partition": partition,
                "leader": known.leader,
                "replicas": known.replicas,
                "isr": known.isr,
                "first": offsets.first.get(tp, -1),
                "end": offsets.end.get(tp, -1),
                "records": offsets.records(tp),
                "bytes": None if sizes is None else sizes.get(tp, 0),
            }
        )
    rows, sort = ordered(rows, request.query_params.get("sort", ""), _PARTITION_COLUMNS, "-partition")
    data = {
        "topic": name,
        "sort": sort,
        "total": len(info.partitions),
        "records": sum(max(offsets.records(tp), 0) for tp in offsets.end),
        "rate": topic_rates(session.rates, offsets).get(name),
        "bytes": None if sizes is None else sum(size for tp, size in sizes.items() if tp.topic == name),
        "partitions": rows[begin : begin + _PARTITIONS_A_PAGE],
        "page": number,
        "pages": pages,
        "groups": [
            {"name": reader.group, "queue": reader.is_queue, "lag": reader.lag} for reader in lags.get(name, ())
        ],
    }
    return Page("topic.html", data, _live_seconds(len(info.partitions)), extra={"number": number})


async def topic_configs(request: Request) -> Page:
    name = name_in(request)
    admin = await session_of(request).admin()
    found = await admin.describe_configs(ResourceType.TOPIC, name, include_documentation=True)
    rows = [
        {
            "name": entry.name,
            "value": "" if entry.value is None else entry.value,
            "source": _source(entry.source),
            "readOnly": entry.read_only,
            "documentation": entry.documentation or "",
            "meaning": meaning(entry.name, entry.value or ""),
        }
        for entry in sorted(found.values(), key=lambda entry: (entry.source != ConfigSource.TOPIC, entry.name))
    ]
    return Page("topic_configs.html", {"topic": name, "configs": rows})


async def new_topic(request: Request) -> Page:
    return Page("topic_new.html", {})


async def create(request: Request, form: Form) -> Change:
    session = session_of(request)
    name = field_of(form, "name", limit=249)
    partitions = number_of(form.get("partitions") or "-1", "Partitions", -1, 1_000_000)
    replicas = number_of(form.get("replicas") or "-1", "Replication factor", -1, 32_767)
    configs = _configs(form.get("configs", ""))
    words: list[object] = ["topic", "create", name]
    words += ["--partitions", partitions] if partitions > 0 else []
    words += ["--replication-factor", replicas] if replicas > 0 else []
    words += [word for item in configs.items() for word in ("-c", "=".join(item))]
    admin = await session.admin()
    await admin.create_topic(name, partitions, replicas, configs, validate_only=True)

    async def perform(_: Form) -> str:
        await admin.create_topic(name, partitions, replicas, configs)
        return f"Topic {name} is created."

    created = f"/topics/{encode_name(name)}"
    return Change(f"Create topic {name}?", command(session, *words), "/topics/new", perform, "Create", onward=created)


async def delete(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    info = await admin.describe_topic(name)
    offsets, lags = await asyncio.gather(read_offsets(admin, [info]), readers.lags_of(session))
    read_by = [reader.group for reader in lags.get(name, ())]
    rows = [
        ("partitions", count(len(info.partitions))),
        ("records", count(sum(max(offsets.records(tp), 0) for tp in offsets.end))),
        ("read by", ", ".join(read_by[:20]) + (" and others" if len(read_by) > 20 else "") or "no group and no queue"),
    ]

    async def perform(_: Form) -> str:
        await (await session.admin()).delete_topic(name)
        return f"Topic {name} is deleted."

    return Change(
        f"Delete topic {name} and all its records?",
        command(session, "topic", "delete", name),
        f"/topics/{encode_name(name)}",
        perform,
        "Delete it",
        danger=True,
        columns=("What goes", ""),
        rows=rows,
        onward="/topics",
    )


async def raise_partitions(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    count = number_of(field_of(form, "partitions"), "Partitions", 1, 1_000_000)

    async def perform(_: Form) -> str:
        outcome = await (await session.admin()).create_partitions({name: count})
        for error in outcome.values():
            if error is not None:
                raise error
        return f"Topic {name} has {count} partitions."

    line = command(session, "topic", "alter", name, "--partitions", count)
    return Change(f"Raise topic {name} to {count} partitions?", line, f"/topics/{encode_name(name)}", perform, "Raise")


async def set_config(request: Request, form: Form) -> Change:
    session, name = session_of(request), name_in(request)
    config = field_of(form, "config")
    value = None if form.get("act") == "unset" else form.get("value", "")
    admin = await session.admin()
    await admin.alter_configs(ResourceType.TOPIC, name, {config: value}, validate_only=True)

    async def perform(_: Form) -> str:
        await admin.alter_configs(ResourceType.TOPIC, name, {config: value})
        return f"{config} of {name} is {'back at its default' if value is None else value!r}."

    doing = ["unset", config] if value is None else ["set", f"{config}={value}"]
    line = command(session, "config", doing[0], "topic", name, doing[1])
    question = f"Reset {config} of {name}?" if value is None else f"Set {config} of {name} to {value}?"
    return Change(question, line, f"/topics/{encode_name(name)}/configs", perform, "Change it")


def _live_seconds(partitions: int) -> float:
    return _SLOW_LIVE_SECONDS if partitions > _MANY_PARTITIONS else _LIVE_SECONDS


def _source(number: int) -> str:
    try:
        return ConfigSource(number).name
    except ValueError:
        return "UNKNOWN"


def _configs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            if not equals:
                raise HTTPException(400, f"{line[:80]!r} is not NAME=VALUE.")
            found[name.strip()] = value.strip()
    return found


ROUTES = [
    *page("/topics/new", new_topic),
    *page("/topics/{name}/configs", topic_configs),
    *page("/topics/{name}", topic),
    *page("/topics", topic_list),
    *change("/topics", create),
    *change("/topics/{name}/delete", delete),
    *change("/topics/{name}/partitions", raise_partitions),
    *change("/topics/{name}/configs", set_config),
]
