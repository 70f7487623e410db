"""What is wrong now: from the metrics of brokers and from what the cluster says of itself, each with where to look and
the command that fixes it, or that says more.

Pure functions. The bounds are those of the alert rules in `packaging/monitoring`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import LogDir
from penstock.client.metadata import TopicInfo
from penstock.console.formats import count, plural, size, span
from penstock.console.names import encode_name

METRICS = (
    "penstock_group_",
    "penstock_share_group_lag_",
    "penstock_share_group_acknowledgement_age_",
    "penstock_success_age_seconds",
    "penstock_coordinator_writes_failing_seconds",
    "penstock_transaction_oldest_open_seconds",
    "kafka_server_brokertopicmetrics_",
)
_STUCK_SECONDS = 300
_STOPPED_SECONDS = 900
_FAILING_SECONDS = 30
_LEASE_SECONDS = 20
_HANGING_SECONDS = 900
_FREE_SHARE = 0.10
_LEASE = "ownership of the catalog"
_UNTIMED = ("expiry of producers",)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a person. `command` is words of the penstock command."""

    text: str
    link: str
    command: tuple[str, ...]
    urgent: bool = False


@dataclass(slots=True)
class Behind:
    """How far a group is behind, over all its topics."""

    name: str
    lag: float = 0
    age_seconds: float | None = None
    idle_seconds: float | None = None


def labels_of(sample: str) -> dict[str, str]:
    """The labels of a sample's name."""
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in _LABEL.findall(sample)}


def behind(brokers: Iterable[Mapping[str, float]], prefix: str, idle: str) -> list[Behind]:
    """Groups by lag, the furthest behind first: `prefix` is penstock_group or penstock_share_group."""
    found: dict[str, Behind] = {}
    for metrics in brokers:
        for sample, value in metrics.items():
            kind = sample.partition("{")[0].removeprefix(prefix)
            if not sample.startswith(prefix) or kind not in ("_lag_records_sum", "_lag_age_seconds", idle):
                continue
            name = labels_of(sample).get("group", "")
            group = found.setdefault(name, Behind(name))
            if kind == "_lag_records_sum":
                group.lag += value
            elif kind == "_lag_age_seconds":
                group.age_seconds = max(value, group.age_seconds or 0.0)
            else:
                group.idle_seconds = max(value, group.idle_seconds or 0.0)
    return sorted(found.values(), key=lambda group: (-group.lag, group.name))


def of_groups(groups: Iterable[Behind], *, queues: bool) -> list[Problem]:
    """Groups that are behind and have finished nothing for minutes."""
    word, address, line = (
        ("Queue", "queues", ("share", "inspect")) if queues else ("Group", "groups", ("group", "describe"))
    )
    return [
        Problem(
            f"{word} {group.name} is {count(group.lag)} records behind and has "
            f"{'completed' if queues else 'committed'} nothing for {span(group.idle_seconds)}.",
            f"/{address}/{encode_name(group.name)}",
            (*line, group.name),
        )
        for group in groups
        if group.lag > 0 and group.idle_seconds is not None and group.idle_seconds > _STUCK_SECONDS
    ]


def of_brokers(brokers: Mapping[int, Mapping[str, float]]) -> list[Problem]:
    """Tasks of brokers that have stopped, leases that are late, writes that fail, transactions that hang."""
    found: list[Problem] = []
    for node, metrics in brokers.items():
        for sample, value in metrics.items():
            labels = labels_of(sample)
            task = labels.get("task", "")
            if sample.startswith("penstock_success_age_seconds") and task not in _UNTIMED:
                text = f"Broker {node}: {task} has not succeeded for {span(value)}."
                if task == _LEASE:
                    text = f"Broker {node}: its lease is late; {task} was last confirmed {span(value)} ago."
                if value > (_LEASE_SECONDS if task == _LEASE else _STOPPED_SECONDS):
                    found.append(Problem(text, "/cluster", ("doctor",), urgent=True))
            elif sample.startswith("penstock_coordinator_writes_failing_seconds") and value > _FAILING_SECONDS:
                text = f"Broker {node}: writes to {labels.get('topic', '')} have failed for {span(value)}."
                found.append(Problem(text, "/cluster", ("doctor",), urgent=True))
            elif sample.startswith("penstock_transaction_oldest_open_seconds") and value > _HANGING_SECONDS:
                text = f"A transaction has been open for {span(value)}; readers of committed records wait for it."
                found.append(Problem(text, "/transactions", ("txn", "list")))
    return found


def of_disks(folders: Iterable[LogDir]) -> list[Problem]:
    """Folders whose disk is nearly full."""
    return [
        Problem(
            f"Broker {folder.broker}: the disk of {folder.path} has {size(folder.usable_bytes)} of "
            f"{size(folder.total_bytes)} left.",
            "/topics",
            ("config", "set", "topic", "TOPIC", "retention.bytes=BYTES"),
            urgent=True,
        )
        for folder in folders
        if folder.total_bytes > 0 and 0 <= folder.usable_bytes < folder.total_bytes * _FREE_SHARE
    ]


def of_topics(topics: Iterable[TopicInfo]) -> list[Problem]:
    """Topics with partitions that nobody leads, or that lack replicas."""
    found: list[Problem] = []
    for topic in topics:
        leaderless = sum(info.leader < 0 for info in topic.partitions.values())
        short = sum(len(info.isr) < len(info.replicas) for info in topic.partitions.values())
        link = f"/topics/{encode_name(topic.name)}"
        line = ("topic", "describe", topic.name)
        if leaderless:
            text = f"Topic {topic.name}: {plural(leaderless, 'partition')} without a leader; nobody can read or write."
            found.append(Problem(text, link, line, urgent=True))
        elif short:
            text = f"Topic {topic.name}: {plural(short, 'partition')} with fewer replicas in sync than it should have."
            found.append(Problem(text, link, line))
    return found
