"""What is wrong now, from the metrics of brokers and from what the cluster says of itself.

Each problem comes with a link to the place, what to do, and the command that fixes it or says more.

Pure functions. The alert rules in `packaging/monitoring` are generated from the bounds of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import LogDir, TransactionDescription
from penstock.client.metadata import TopicInfo
from penstock.client.scrapes import Samples
from penstock.console.formats import plural, size, span
from penstock.console.names import encode_name

STUCK_SECONDS = 300
STOPPED_SECONDS = 900
FAILING_SECONDS = 30
UNREACHABLE_SECONDS = 30
UNCOMMITTED_SECONDS = 30
LEASE_SHARE = 0.5
HANGING_SECONDS = 900
FREE_SHARE = 0.1

# Tasks that brokers name in penstock_success_age_seconds, and whose age means something else than that they stopped.
OWNERSHIP = "ownership of the catalog"
LEASE = "renewal of the lease"
STORE = "commits to the store"
UNTIMED = ("expiry of producers",)
_OTHERS = (OWNERSHIP, LEASE, STORE, *UNTIMED)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a person. `command` is words of the penstock command."""

    text: str
    link: str
    command: tuple[str, ...]
    advice: str = ""
    """What the command is for, where it does not stand for itself."""
    urgent: bool = False


@dataclass(slots=True)
class Behind:
    """How far a group is behind, over all its topics."""

    name: str
    lag: float = 0
    age_seconds: float | None = None
    idle_seconds: float | None = None
    stalled_seconds: float = 0
    """For how long some partition has had records to do, and no progress, whatever the other partitions do."""
    stalled_topic: str = ""


@dataclass(frozen=True, slots=True)
class Uncleanable:
    """A log that the cleaner has given up."""

    broker: int
    topic: str
    partition: int
    error: str


def values_of(samples: Samples, name: str) -> list[tuple[dict[str, str], float]]:
    """The samples of one metric with their labels."""
    return [(dict(labels), value) for labels, value in samples.get(name, {}).items()]


def behind(brokers: Iterable[Samples], prefix: str, idle: str) -> dict[str, Behind]:
    """Groups by name: `prefix` is penstock_group or penstock_share_group."""
    found: dict[str, Behind] = {}
    for samples in brokers:
        for labels, value in values_of(samples, f"{prefix}_lag_records_sum"):
            group = found.setdefault(labels["group"], Behind(labels["group"]))
            group.lag += value
        for labels, value in values_of(samples, f"{prefix}_lag_age_seconds"):
            group = found.setdefault(labels["group"], Behind(labels["group"]))
            group.age_seconds = max(value, group.age_seconds or 0.0)
        for labels, value in values_of(samples, f"{prefix}{idle}"):
            group = found.setdefault(labels["group"], Behind(labels["group"]))
            group.idle_seconds = max(value, group.idle_seconds or 0.0)
        for labels, value in values_of(samples, f"{prefix}_stalled_seconds"):
            group = found.setdefault(labels["group"], Behind(labels["group"]))
            if value > group.stalled_seconds:
                group.stalled_seconds, group.stalled_topic = value, labels["topic"]
    return found


def of_groups(groups: Iterable[Behind], *, queues: bool) -> list[Problem]:
    """Groups of which a partition has had records to do for minutes, and no progress."""
    word, address, line, missing = (
        ("Queue", "queues", ("share", "inspect"), "completed record")
        if queues
        else ("Group", "groups", ("group", "describe"), "commit")
    )
    return [
        Problem(
            f"{word} {group.name} is {plural(int(group.lag), 'record')} behind, without a {missing} for "
            f"{span(group.stalled_seconds)} in some partition of {group.stalled_topic}.",
            f"/{address}/{encode_name(group.name)}",
            (*line, group.name),
        )
        for group in groups
        if group.stalled_seconds > STUCK_SECONDS
    ]


def of_brokers(
    brokers: Mapping[int, Samples], folders: Iterable[LogDir], addresses: Mapping[int, str]
) -> list[Problem]:
    """Tasks of brokers that have stopped, leases that are late, writes that fail."""
    found: list[Problem] = []
    paths = {folder.broker: folder.path for folder in folders}
    for broker, samples in brokers.items():
        path = paths.get(broker)
        doctor = ("doctor", "--data", path) if path else ("doctor",)
        advice = f"The log of broker {broker} says why. On its machine, look for a full or read-only disk"
        lease = max(samples.get("penstock_lease_seconds", {}).values(), default=None)
        for task, seconds in _ages(samples).items():
            if task == LEASE and lease is not None and seconds > LEASE_SHARE * lease:
                text = f"Broker {broker}: its lease of {span(lease)} is late; it was last renewed {span(seconds)} ago."
                line = "When it is over, others take its partitions. See whether it reaches the database"
                found.append(Problem(text, "/cluster", ("doctor",), line, urgent=True))
            elif task == OWNERSHIP and seconds > UNREACHABLE_SECONDS:
                text = f"Broker {broker} has not reached the database with its catalog for {span(seconds)}."
                line = "See whether the database runs, and can be reached from the broker"
                found.append(Problem(text, "/cluster", ("doctor",), line, urgent=True))
            elif task not in _OTHERS and seconds > STOPPED_SECONDS:
                text = f"Broker {broker}: {task} has not succeeded for {span(seconds)}."
                found.append(
                    Problem(text, "/cluster", _cleaner(broker, addresses), urgent=True)
                    if task == "compaction"
                    else Problem(text, "/cluster", doctor, advice, urgent=True)
                )
        for labels, seconds in values_of(samples, "penstock_coordinator_writes_failing_seconds"):
            if seconds > FAILING_SECONDS:
                text = f"Broker {broker}: writes to {labels['topic']} have failed for {span(seconds)}."
                found.append(Problem(text, "/cluster", doctor, advice, urgent=True))
    return found


def of_stores(brokers: Mapping[int, Samples], failures: Mapping[int, float]) -> list[Problem]:
    """Object stores, or their PostgreSQL, that take no records; `failures` a second by broker."""
    found: list[Problem] = []
    advice = "Records wait in the broker. Its log names the server that fails. See whether this broker is reachable"
    for broker, samples in brokers.items():
        waiting = sum(samples.get("penstock_store_backlog_bytes", {}).values())
        age = _ages(samples).get(STORE, 0.0)
        if age > UNCOMMITTED_SECONDS:
            text = f"Broker {broker}: no commit to its store for {span(age)}, and {size(int(waiting))} wait."
            found.append(Problem(text, "/cluster", ("doctor",), advice, urgent=True))
        elif failures.get(broker, 0) > 0:
            text = f"Broker {broker}: uploads or commits to its store fail, and are tried again."
            found.append(Problem(text, "/cluster", ("doctor",), advice))
    return found


def _ages(samples: Samples) -> dict[str, float]:
    """For how long each task has not succeeded."""
    return {labels["task"]: seconds for labels, seconds in values_of(samples, "penstock_success_age_seconds")}


def of_cleaner(logs: Iterable[Uncleanable], addresses: Mapping[int, str]) -> list[Problem]:
    """Logs that are no longer compacted."""
    return [
        Problem(
            f"Broker {log.broker}: {log.topic}-{log.partition} cannot be compacted any more: {log.error}",
            f"/topics/{encode_name(log.topic)}",
            _cleaner(log.broker, addresses),
            "It grows without end. See where the cleaner stopped; the broker's log has the offset",
            urgent=True,
        )
        for log in logs
    ]


def _cleaner(broker: int, addresses: Mapping[int, str]) -> tuple[str, ...]:
    """The command that shows what the cleaner of a broker does."""
    return (
        ("cleaner", "--monitoring", addresses[broker]) if len(addresses) > 1 and broker in addresses else ("cleaner",)
    )


def of_transactions(described: Iterable[TransactionDescription], now_ms: int) -> list[Problem]:
    """Transactions that hold back readers of committed records."""
    return [
        Problem(
            f"The transaction of {each.transactional_id} has been open for "
            f"{span((now_ms - each.start_time_ms) / 1000)}; readers of committed records wait for it.",
            "/transactions",
            ("txn", "abort", each.transactional_id),
        )
        for each in described
        if each.start_time_ms >= 0 and now_ms - each.start_time_ms > HANGING_SECONDS * 1000
    ]


def of_disks(folders: Iterable[LogDir]) -> list[Problem]:
    """Folders whose disk is nearly full, and what would halve the largest topic in each."""
    found: list[Problem] = []
    for folder in folders:
        if folder.total_bytes <= 0 or not 0 <= folder.usable_bytes < folder.total_bytes * FREE_SHARE:
            continue
        text = f"Broker {folder.broker}: {size(folder.usable_bytes)} of {size(folder.total_bytes)} are left on the disk"
        text += f" of {folder.path}."
        topics: dict[str, list[int]] = {}
        for tp, held in folder.sizes.items():
            if not tp.topic.startswith("__"):
                topics.setdefault(tp.topic, []).append(held)
        largest = max(topics, key=lambda name: sum(topics[name]), default=None)
        if largest is None:
            found.append(Problem(text, "/cluster", ("doctor", "--data", folder.path), urgent=True))
            continue
        half = max(1, max(topics[largest]) // 2)
        found.append(
            Problem(
                text,
                f"/topics/{encode_name(largest)}/configs",
                ("config", "set", "topic", largest, f"retention.bytes={half}"),
                f"Topic {largest} takes {size(sum(topics[largest]))} of it. This deletes the older half of its largest "
                "partition",
                urgent=True,
            )
        )
    return found


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
