"""The cluster: its brokers, what each of them leads, its disks and its store, and how long ago its chores were done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from starlette.requests import Request

from penstock.client.admin import Admin, LogDir
from penstock.client.monitoring import CONFIG
from penstock.client.scrapes import Samples
from penstock.client.types import Node
from penstock.console.problems import values_of
from penstock.console.web import Page, page, session_of
from penstock.wire.acls import AclOperation
from penstock.wire.errors import KafkaError

NAVIGATION = [("/cluster", "Cluster", "u")]
_LIVE_SECONDS = 5.0  # each time the brokers collect all of their metrics
_STORE = {
    "backlogBytes": "backlog_bytes",
    "commitAgeSeconds": "commit_age_seconds",
    "uploadsUnderWay": "uploads_under_way",
    "uploads": "uploads_total",
    "failures": "failures_total",
    "cacheBytes": "cache_bytes",
    "choresWaiting": "chores_waiting",
}
_TASKS = {"waiting": "expiry of requests that wait"}


async def cluster(request: Request) -> Page:
    session = session_of(request)
    admin = await session.admin()
    found, topics, folders = await asyncio.gather(
        admin.describe_cluster(include_operations=True), admin.list_topics(include_internal=True), _folders(admin)
    )
    measured = await session.monitoring.metrics()
    leads: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    leaderless = 0
    for topic in topics:
        for partition in topic.partitions.values():
            leads[partition.leader] += 1
            leaderless += partition.leader < 0
            copies.update(partition.replicas)
            behind.update(set(partition.replicas) - set(partition.isr))
    operations = found.operations or frozenset[AclOperation]()
    data: dict[str, object] = {
        "cluster": found.cluster_id,
        "controller": found.controller,
        "leaderless": leaderless,
        "brokers": [
            {
                "broker": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack or "",
                "fenced": node.node_id in found.fenced,
                "leads": leads[node.node_id],
                "replicas": copies[node.node_id],
                "behind": behind[node.node_id],
            }
            for node in found.nodes
        ],
        "folders": None if folders is None else [_folder(folder) for folder in folders],
        "ages": _ages(found.nodes, measured),
        "store": _store(measured),
        "operations": sorted(each.name for each in operations),
        "has_metrics": await session.monitoring.is_there(),
        "may_look": await session.monitoring.may_look(),
    }
    return Page("cluster.html", data, _LIVE_SECONDS, extra={"config": CONFIG})


async def _folders(admin: Admin) -> list[LogDir] | None:
    try:
        return await admin.describe_log_dirs()
    except KafkaError:
        return None  # this user may not describe the cluster


def _folder(folder: LogDir) -> dict[str, object]:
    return {
        "broker": folder.broker,
        "path": folder.path,
        "bytes": sum(folder.sizes.values()),
        "partitions": len(folder.sizes),
        "total": folder.total_bytes,
        "usable": folder.usable_bytes,
    }


def _ages(nodes: list[Node], measured: Mapping[int, Samples]) -> list[dict[str, object]]:
    """How long ago each broker last did what must not silently stop: renew its lease, commit, clean, ..."""
    return [
        {"broker": node.node_id, "task": _TASKS.get(labels["task"], labels["task"]), "seconds": seconds}
        for node in nodes
        for labels, seconds in sorted(
            values_of(measured.get(node.node_id, {}), "penstock_success_age_seconds"), key=lambda each: each[0]["task"]
        )
    ]


def _store(measured: Mapping[int, Samples]) -> list[dict[str, object]]:
    """What the object store of each broker has to do, for brokers that have one."""
    return [
        {"broker": broker, **{key: _only(samples, f"penstock_store_{name}") for key, name in _STORE.items()}}
        for broker, samples in measured.items()
        if "penstock_store_commits_total" in samples
    ]


def _only(samples: Samples, name: str) -> float | None:
    """The value of a metric without labels."""
    return next(iter(samples.get(name, {}).values()), None)


ROUTES = page("/cluster", cluster)
