"""The overview: what is wrong now, the rates of the cluster, and who is behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import cast

from starlette.requests import Request

from penstock.client.admin import Admin, LogDir, TransactionDescription
from penstock.client.metadata import TopicInfo
from penstock.client.scrapes import Samples
from penstock.console import problems
from penstock.console.commands import command
from penstock.console.pages.groups import commits_of, ends_of, lag_trends
from penstock.console.problems import Behind, Problem, Uncleanable, values_of
from penstock.console.readings import read_offsets, topic_rates
from penstock.console.session import Session
from penstock.console.web import Page, page, session_of
from penstock.wire.errors import KafkaError

NAVIGATION = [("/", "Overview", "o")]
_LIVE_SECONDS = 3.0
_MOST_ROWS = 10
_MOST_PROBLEMS = 50
_MOST_GROUPS = 100
_MOST_PARTITIONS = 20_000
_MOST_HANGING = 10
_TRAFFIC = "kafka_server_brokertopicmetrics_"
_RATES = ("bytesIn", "bytesOut", "messagesIn")
_UNCLEANABLE = "kafka_log_logcleanermanager_uncleanable_partitions_count"


async def overview(request: Request) -> Page:
    session = session_of(request)
    admin = await session.admin()
    cluster, topics, folders, listed, hanging, metrics = await asyncio.gather(
        admin.describe_cluster(),
        admin.list_topics(),
        _folders(admin),
        admin.list_groups(),
        _hanging(admin),
        session.monitoring.metrics(),
    )
    if metrics:
        groups = problems.behind(metrics.values(), "penstock_group", "_commit_age_seconds")
        queues = problems.behind(metrics.values(), "penstock_share_group", "_acknowledgement_age_seconds")
        busiest = _traffic(session, metrics, {topic.name for topic in topics})
    else:
        groups, queues = await _behind(admin)
        busiest = await _messages(session, admin, topics)
    rates = {name: sum(found) for name in _RATES if (found := [row[name] for row in busiest.values() if name in row])}
    addresses = await session.monitoring.addresses()
    wrong = [
        *problems.of_topics(topics),
        *problems.of_disks(folders or ()),
        *problems.of_brokers(metrics, folders or (), addresses),
        *problems.of_stores(metrics, _failures(session, metrics)),
        *problems.of_cleaner(await _uncleanable(session, metrics), addresses),
        *problems.of_transactions(hanging, int(time.time() * 1000)),
        *problems.of_groups(groups.values(), queues=False),
        *problems.of_groups(queues.values(), queues=True),
    ]
    wrong.sort(key=lambda problem: not problem.urgent)
    sizes: dict[str, int] = {}
    for folder in folders or ():
        for tp, held in folder.sizes.items():
            sizes[tp.topic] = sizes.get(tp.topic, 0) + held
    states = {group.group_id: group.state for group in listed}
    data: dict[str, object] = {
        "cluster": cluster.cluster_id,
        "brokers": len(cluster.nodes),
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "bytes": sum(sizes.values()) if folders is not None else None,
        "bytesIn": rates.get("bytesIn"),
        "bytesOut": rates.get("bytesOut"),
        "messagesIn": rates.get("messagesIn"),
        "problems": [_shown(session, problem) for problem in wrong[:_MOST_PROBLEMS]],
        "left_out": max(0, len(wrong) - _MOST_PROBLEMS),
        "groups": _rows(session, groups, states),
        "queues": _rows(session, queues, states),
        "busiest": [
            {"name": name, **row}
            for name, row in sorted(busiest.items(), key=lambda item: (-item[1].get("messagesIn", 0), item[0]))
            if name and any(row.values())
        ][:_MOST_ROWS],
        "watched": bool(metrics),
        "measured": bool(rates),
    }
    return Page("overview.html", data, _LIVE_SECONDS)


def _shown(session: Session, problem: Problem) -> dict[str, object]:
    return {
        "text": problem.text,
        "link": problem.link,
        "advice": problem.advice,
        "command": command(session, *problem.command),
        "urgent": problem.urgent,
    }


def _rows(session: Session, groups: Mapping[str, Behind], states: Mapping[str, str]) -> list[dict[str, object]]:
    """Those furthest behind."""
    trends = lag_trends(session, {name: group.lag for name, group in groups.items()})
    furthest = sorted(groups.values(), key=lambda group: (-group.lag, group.name))[:_MOST_ROWS]
    return [
        {
            "name": group.name,
            "state": states.get(group.name, ""),
            "lag": int(group.lag),
            "lagPerSecond": trends.get(group.name),
            "ageSeconds": group.age_seconds,
            "idleSeconds": group.idle_seconds,
        }
        for group in furthest
    ]


async def _folders(admin: Admin) -> list[LogDir] | None:
    try:
        return await admin.describe_log_dirs()
    except KafkaError:
        return None  # this user may not see them


async def _hanging(admin: Admin) -> list[TransactionDescription]:
    """Transactions that have been open for long."""
    try:
        listed = await admin.list_transactions(
            states=["Ongoing"], running_longer_than_ms=problems.HANGING_SECONDS * 1000
        )
        found = [admin.describe_transaction(each.transactional_id) for each in listed[:_MOST_HANGING]]
        described = await asyncio.gather(*found, return_exceptions=True)
    except KafkaError:
        return []  # brokers before 3.8 cannot tell for how long
    return [each for each in described if isinstance(each, TransactionDescription)]


async def _uncleanable(session: Session, metrics: Mapping[int, Samples]) -> list[Uncleanable]:
    """The logs that cleaners have given up, with the reason."""
    if not any(sum(samples.get(_UNCLEANABLE, {}).values()) for samples in metrics.values()):
        return []
    views = await session.monitoring.by_broker("/cleaner")
    return [
        Uncleanable(broker, str(log["topic"]), int(str(log["partition"])), str(log["lastError"] or "unknown"))
        for broker, view in views.items()
        for log in cast("Mapping[str, Iterable[Mapping[str, object]]]", view)["logs"]
        if log["uncleanable"]
    ]


def _failures(session: Session, metrics: Mapping[int, Samples]) -> dict[int, float]:
    """Failed uploads and commits a second, by broker."""
    counters = {
        f"store failures of broker {broker}": sum(found.values())
        for broker, samples in metrics.items()
        if (found := samples.get("penstock_store_failures_total"))
    }
    return {int(name.rpartition(" ")[2]): rate for name, rate in session.rates.update(counters).items()}


def _traffic(session: Session, brokers: Mapping[int, Samples], shown: set[str]) -> dict[str, dict[str, float]]:
    """Rates of bytes and messages by topic; those that are not shown, internal ones, under an empty name."""
    counters: dict[tuple[str, str], str] = {}
    totals: dict[str, float] = {}
    for broker, samples in brokers.items():
        for name in _RATES:
            for labels, value in values_of(samples, f"{_TRAFFIC}{name.lower()}_total"):
                if "topic" in labels:
                    counter = f"{name} of {labels['topic']} at broker {broker}"
                    counters[counter, name] = labels["topic"] if labels["topic"] in shown else ""
                    totals[counter] = value
    rates = session.rates.update(totals)
    found: dict[str, dict[str, float]] = {}
    for (counter, name), topic in counters.items():
        if counter in rates:
            row = found.setdefault(topic, dict.fromkeys(_RATES, 0.0))
            row[name] += rates[counter]
    return found


async def _messages(session: Session, admin: Admin, topics: list[TopicInfo]) -> dict[str, dict[str, float]]:
    """Records a second by topic, from end offsets, where brokers show no metrics."""
    if sum(len(topic.partitions) for topic in topics) > _MOST_PARTITIONS:
        return {}
    rates = topic_rates(session.rates, await read_offsets(admin, topics))
    return {topic: {"messagesIn": rate} for topic, rate in rates.items()}


async def _behind(admin: Admin) -> tuple[dict[str, Behind], dict[str, Behind]]:
    """Groups and queues from the protocol alone, which knows no ages."""
    listed = await admin.list_groups()
    shares = [group for group in listed if group.type.lower() == "share"][:_MOST_GROUPS]
    others = [group for group in listed if group.type.lower() != "share"][:_MOST_GROUPS]
    committed = await commits_of(admin, others)
    ends = await ends_of(admin, {tp for offsets in committed.values() for tp in offsets})
    groups = {
        name: Behind(name, sum(max(0, ends[tp] - offset) for tp, offset in offsets.items() if tp in ends))
        for name, offsets in committed.items()
    }
    queues = {}
    for share in shares:
        try:
            offsets = await admin.list_share_group_offsets(share.group_id)
        except KafkaError:
            continue
        queues[share.group_id] = Behind(share.group_id, sum(max(0, offset.lag) for offset in offsets.values()))
    return groups, queues


ROUTES = page("/", overview)
