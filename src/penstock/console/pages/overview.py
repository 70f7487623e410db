"""The overview: what is wrong now, the rates of the cluster, and who is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import Request

from penstock.client.admin import Admin, LogDir
from penstock.client.metadata import TopicInfo
from penstock.console import problems
from penstock.console.commands import command
from penstock.console.pages.groups import commits_of, ends_of
from penstock.console.problems import Behind, Problem
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
_TRAFFIC = "kafka_server_brokertopicmetrics_"
_RATES = ("bytesIn", "bytesOut", "messagesIn")


async def overview(request: Request) -> Page:
    session = session_of(request)
    admin = await session.admin()
    cluster, topics, folders, metrics = await asyncio.gather(
        admin.describe_cluster(), admin.list_topics(), _folders(admin), session.monitoring.metrics(*problems.METRICS)
    )
    if metrics:
        groups = problems.behind(metrics.values(), "penstock_group", "_commit_age_seconds")
        queues = problems.behind(metrics.values(), "penstock_share_group", "_acknowledgement_age_seconds")
        rates = _traffic(session, metrics)
    else:
        groups, queues = await _behind(admin)
        rates = await _messages(session, admin, topics)
    wrong = [
        *problems.of_topics(topics),
        *problems.of_disks(folders or ()),
        *problems.of_brokers(metrics),
        *problems.of_groups(groups, queues=False),
        *problems.of_groups(queues, queues=True),
    ]
    wrong.sort(key=lambda problem: not problem.urgent)
    sizes: dict[str, int] = {}
    for folder in folders or ():
        for tp, held in folder.sizes.items():
            sizes[tp.topic] = sizes.get(tp.topic, 0) + held
    data: dict[str, object] = {
        "cluster": cluster.cluster_id,
        "brokers": len(cluster.nodes),
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "bytes": sum(sizes.values()) if folders is not None else None,
        "bytesIn": rates.get("bytesIn"),
        "bytesOut": rates.get("bytesOut"),
        "messagesIn": rates.get("messagesIn"),
        "problems": [_shown(problem, command(session, *problem.command)) for problem in wrong[:_MOST_PROBLEMS]],
        "left_out": max(0, len(wrong) - _MOST_PROBLEMS),
        "groups": [_row(group) for group in groups[:_MOST_ROWS]],
        "queues": [_row(queue) for queue in queues[:_MOST_ROWS]],
        "watched": bool(metrics),
    }
    return Page("overview.html", data, _LIVE_SECONDS)


def _shown(problem: Problem, line: str) -> dict[str, object]:
    return {"text": problem.text, "link": problem.link, "command": line, "urgent": problem.urgent}


def _row(group: Behind) -> dict[str, object]:
    return {
        "name": group.name,
        "lag": int(group.lag),
        "ageSeconds": group.age_seconds,
        "idleSeconds": group.idle_seconds,
    }


async def _folders(admin: Admin) -> list[LogDir] | None:
    try:
        return await admin.describe_log_dirs()
    except KafkaError:
        return None  # this user may not see them


def _traffic(session: Session, brokers: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Rates of bytes and messages over all brokers; samples with a topic are parts of those without."""
    totals: dict[str, float] = {}
    for broker, metrics in brokers.items():
        for name in _RATES:
            sample = f"{_TRAFFIC}{name.lower()}_total"
            parts = [value for each, value in metrics.items() if each.startswith(sample + "{")]
            totals[f"{name} of broker {broker}"] = metrics.get(sample, sum(parts))
    rates = session.rates.update(totals)
    return _sums({name: [rate for each, rate in rates.items() if each.startswith(f"{name} ")] for name in _RATES})


async def _messages(session: Session, admin: Admin, topics: list[TopicInfo]) -> dict[str, float]:
    """Records a second from end offsets, where brokers show no metrics."""
    if sum(len(topic.partitions) for topic in topics) > _MOST_PARTITIONS:
        return {}
    return _sums({"messagesIn": list(topic_rates(session.rates, await read_offsets(admin, topics)).values())})


def _sums(rates: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: sum(each) for name, each in rates.items() if each}


async def _behind(admin: Admin) -> tuple[list[Behind], list[Behind]]:
    """Groups and queues by lag from the protocol alone, which knows no ages."""
    listed = await admin.list_groups()
    shares = [group for group in listed if group.type.lower() == "share"][:_MOST_GROUPS]
    others = [group for group in listed if group.type.lower() != "share"][:_MOST_GROUPS]
    committed = await commits_of(admin, others)
    ends = await ends_of(admin, {tp for offsets in committed.values() for tp in offsets})
    groups = [
        Behind(name, sum(max(0, ends[tp] - offset) for tp, offset in offsets.items() if tp in ends))
        for name, offsets in committed.items()
    ]
    queues = []
    for share in shares:
        try:
            offsets = await admin.list_share_group_offsets(share.group_id)
        except KafkaError:
            continue
        queues.append(Behind(share.group_id, sum(max(0, offset.lag) for offset in offsets.values())))
    return sorted(groups, key=lambda group: -group.lag), sorted(queues, key=lambda queue: -queue.lag)


ROUTES = page("/", overview)
