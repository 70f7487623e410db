"""The options of the source, named and understood as those of Spark's own Kafka source.

Names are compared without regard to case, as Spark does. What begins with `kafka.` is a setting of the client. An
option that nobody knows is refused with the nearest one that exists: a misspelt `endingOffsets` would otherwise read a
whole topic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.client.errors import UsageError, nearest
from penstock.client.security import SecurityConfig
from penstock.client.types import IsolationLevel, TopicPartition
from penstock.spark.ranges import Offsets, from_json
from penstock.spark.security import NO_SECURITY, is_security_option, security_in

EARLIEST, LATEST = -2, -1

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
SPARK_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
DEFAULT_BATCH_ROWS = 65_536
DEFAULT_POLL_TIMEOUT_MS = 120_000

_SOURCE_OPTIONS = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupIdPrefix",
    "includeHeaders",
    "columns",
    "commitOffsets",
    "fetchBytes",
    "batchRows",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "share.group",
    "share.maxRecords",
    "path",
)
_CLIENT_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.check.crcs",
)

Kind = Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to start or to end: a named place, an offset per partition, one time, or a time per partition."""

    kind: Kind
    offsets: Offsets = field(default_factory=dict)
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: exactly one of names, a pattern of names, or partitions one by one."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern:
            return self.pattern
        return ",".join(self.topics or sorted({tp.topic for tp in self.partitions}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    bootstrap_servers: str
    subscription: Subscription
    starting: Bound
    ending: Bound
    columns: tuple[str, ...] = COLUMNS
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    starting_without_match: str = "error"
    group_id: str = ""
    client_id: str = "penstock-spark"
    check_crcs: bool = True
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    batch_rows: int = DEFAULT_BATCH_ROWS
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    metadata_ttl_ms: int = 1_000
    share_group: str = ""
    share_max_records: int = 500
    security: SecurityConfig = NO_SECURITY

    @property
    def schema(self) -> str:
        """The DDL of the columns."""
        return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in self.columns)


def parse_options(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """The options of a query; raises `UsageError` for one that is unknown, malformed or out of place."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(given)
    servers = options.get("kafka.bootstrap.servers", "")
    if not servers:
        raise UsageError("option kafka.bootstrap.servers is missing: set it to a broker to read from, as host:port")
    subscription = _subscription(options)
    share_group = options.get("share.group", "")
    if share_group and not streaming:
        raise UsageError("share.group is for readStream: a share group delivers records once, not to every action")
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise UsageError(f"{name} has no meaning in a streaming query, which never ends")
    starting = _bound(options, "starting", "latest" if streaming else "earliest")
    ending = _bound(options, "ending", "latest")
    if not streaming:
        _check_batch_bounds(starting, ending)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UsageError(f"startingOffsetsByTimestampStrategy is {strategy!r}; it must be error or latest")
    return SourceOptions(
        bootstrap_servers=servers,
        subscription=subscription,
        starting=starting,
        ending=ending,
        columns=_columns(options),
        fail_on_data_loss=_truth(options, "failOnDataLoss", True),
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=_positive(options, "maxOffsetsPerTrigger"),
        min_offsets_per_trigger=_positive(options, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration_ms(options.get("maxtriggerdelay", "15m")),
        isolation=_isolation(options.get("kafka.isolation.level", "read_uncommitted")),
        starting_without_match=strategy,
        group_id=_group_id(options, subscription) if _truth(options, "commitOffsets", True) else "",
        client_id=options.get("kafka.client.id", "penstock-spark"),
        check_crcs=_truth(options, "kafka.check.crcs", True),
        fetch_bytes=_positive(options, "fetchBytes") or DEFAULT_FETCH_BYTES,
        batch_rows=_positive(options, "batchRows") or DEFAULT_BATCH_ROWS,
        poll_timeout_ms=_positive(options, "kafkaConsumer.pollTimeoutMs") or DEFAULT_POLL_TIMEOUT_MS,
        metadata_ttl_ms=_positive(options, "partition.metadata.cache.ttl.ms") or 1_000,
        share_group=share_group,
        share_max_records=_positive(options, "share.maxRecords") or 500,
        security=security_in(options),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in (*_SOURCE_OPTIONS, *_CLIENT_OPTIONS)}
    for name in given:
        if name.lower() not in known and not is_security_option(name):
            guess = nearest(name.lower(), known)
            hint = f"; did you mean {known[guess]}?" if guess else f"; there are {', '.join(sorted(known.values()))}"
            raise UsageError(f"the penstock source has no option {name!r}{hint}")


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in ("assign", "subscribe", "subscribepattern") if options.get(name)]
    if len(given) != 1:
        raise UsageError(
            "exactly one of subscribe, subscribePattern and assign must be given; "
            + (f"here are {', '.join(given)}" if given else "here is none")
        )
    text = options[given[0]]
    if given[0] == "subscribe":
        return Subscription(topics=tuple(sorted({name.strip() for name in text.split(",") if name.strip()})))
    if given[0] == "subscribepattern":
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(f"subscribePattern is {text!r}, which is not a regular expression: {error}") from None
        return Subscription(pattern=text)
    try:
        parsed = json.loads(text)
        partitions = {TopicPartition(topic, int(p)) for topic, numbers in parsed.items() for p in numbers}
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f'assign is {text!r}; it must look like {{"topic": [0, 1]}}') from None
    return Subscription(partitions=tuple(sorted(partitions)))


def _bound(options: Mapping[str, str], side: str, default: Kind) -> Bound:
    at, by_time, text = (options.get(f"{side}{rest}") for rest in ("timestamp", "offsetsbytimestamp", "offsets"))
    if at is not None:
        if not at.strip().isdigit():
            raise UsageError(f"{side}Timestamp is {at!r}; it must be milliseconds since 1970")
        return Bound("timestamp", timestamp_ms=int(at))
    if by_time is not None:
        return Bound("timestamps", _offsets(f"{side}OffsetsByTimestamp", by_time))
    if text is None:
        return Bound(default)
    if text.strip().lower() == "earliest":
        return Bound("earliest")
    if text.strip().lower() == "latest":
        return Bound("latest")
    return Bound("offsets", _offsets(f"{side}Offsets", text))


def _offsets(name: str, text: str) -> Offsets:
    try:
        return from_json(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f'{name} is {text!r}; it must be earliest, latest or like {{"topic": {{"0": 23}}}}') from None


def _check_batch_bounds(starting: Bound, ending: Bound) -> None:
    if starting.kind == "latest" or LATEST in starting.offsets.values():
        raise UsageError("startingOffsets can not be latest in a batch query: there would be nothing to read")
    if ending.kind == "earliest" or (ending.kind == "offsets" and EARLIEST in ending.offsets.values()):
        raise UsageError("endingOffsets can not be earliest in a batch query: there would be nothing to read")


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _truth(options, "includeHeaders", False)
    text = options.get("columns", "")
    if not text:
        return (*COLUMNS, "headers") if with_headers else COLUMNS
    known = {name.lower(): name for name in SPARK_TYPES}
    chosen: list[str] = []
    for part in text.split(","):
        name = known.get(part.strip().lower())
        if name is None:
            raise UsageError(f"columns is {text!r}; there is no column {part.strip()!r}, only {', '.join(SPARK_TYPES)}")
        if name not in chosen:
            chosen.append(name)
    if with_headers and "headers" not in chosen:
        chosen.append("headers")
    return tuple(chosen)


def _group_id(options: Mapping[str, str], subscription: Subscription) -> str:
    given = options.get("kafka.group.id")
    if given:
        return given
    prefix = options.get("groupidprefix", "spark-kafka-source")
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9._-]+', '-', str(subscription)).strip('-')}"[:200]


def _truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise UsageError(f"{name} is {text!r}; it must be true or false")
    return text.strip().lower() == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise UsageError(f"{name} is {text!r}; it must be a whole number above 0")
    return int(text)


def _isolation(text: str) -> IsolationLevel:
    try:
        return IsolationLevel[text.strip().upper()]
    except KeyError:
        raise UsageError(f"kafka.isolation.level is {text!r}; it must be read_uncommitted or read_committed") from None


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


def _duration_ms(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise UsageError(f"maxTriggerDelay is {text!r}; it must look like 15m, 30s or 500ms")
    return int(found[1]) * _UNITS_MS[found[2]]
