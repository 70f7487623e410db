"""The client's settings: Python names as keyword arguments, Kafka's dotted names in a mapping, one table for both.

`Producer(linger_ms=5)`, `Producer({"linger.ms": "5"})` and `Producer({"linger.ms": 5}, acks="all")` mean the same. Each
setting is a field of a frozen dataclass, so its name, type and default stand in one place; text (from a file or an
environment variable) is converted to the field's type, and an unknown name is refused with the nearest one that exists.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from penstock.client.errors import UsageError, nearest
from penstock.client.security import (
    PROTOCOLS,
    SECRETS,
    SYNONYMS,
    SecurityConfig,
    SecuritySettings,
    check_consistent,
    mechanism_of,
    translated,
)

C = TypeVar("C", bound="ClientConfig")

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """What every client needs to reach a cluster."""

    bootstrap_servers: str = DEFAULT_BOOTSTRAP
    """Brokers to connect to first: `host:port,host:port` or a list."""
    client_id: str = "penstock"
    """Name of this client in the brokers' logs, quotas and metrics."""
    client_rack: str = ""
    """Rack of this client, for fetching from a replica nearby."""
    request_timeout_ms: int = 30_000
    """How long to wait for the response to one request."""
    default_api_timeout_ms: int = 60_000
    """How long a call may take, retries included, unless it has a timeout of its own."""
    metadata_max_age_ms: int = 300_000
    """How old metadata may become: new topics and partitions are noticed within this time."""
    retry_backoff_ms: int = 100
    """First pause before a retry; each further pause is twice as long."""
    retry_backoff_max_ms: int = 1_000
    """Longest pause before a retry."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long connecting may take."""
    connections_max_idle_ms: int = 540_000
    """Connections that nobody uses for this long are closed."""
    max_in_flight_requests_per_connection: int = 5
    """Requests that may wait for their responses on one connection."""
    receive_message_max_bytes: int = 1 << 30
    """Largest response that is accepted."""
    allow_auto_create_topics: bool = True
    """Whether a request for metadata of a missing topic may create it, if the broker does that."""
    enable_metrics_push: bool = True
    """Push this client's metrics to a cluster that subscribes to them (KIP-714). An `Admin` pushes none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """An admin client has no settings of its own."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    acks: str = "all"
    """`all`: durable; `1`: written; `0`: no response at all."""
    enable_idempotence: bool | None = None
    """Retries write no duplicates. On unless `acks` is weaker than `all`."""
    transactional_id: str = ""
    """Turns transactions on; one running producer per id."""
    transaction_timeout_ms: int = 60_000
    """The broker aborts a transaction that is open for longer."""
    compression_type: str = "none"
    """`none`, `gzip`, `snappy`, `lz4`, `zstd`."""
    compression_level: int | None = None
    """Level of the codec; the codec's default if `None`."""
    batch_size: int = 16_384
    """Bytes per batch."""
    linger_ms: float = 5.0
    """How long a batch waits for more records; `send_and_wait` and `flush` do not wait."""
    buffer_memory: int = 33_554_432
    """Bytes that may wait to be sent; then `send` waits."""
    max_block_ms: int = 60_000
    """How long `send` waits for space in the buffer or for metadata."""
    max_request_size: int = 1_048_576
    """Largest record, and largest request."""
    delivery_timeout_ms: int = 120_000
    """How long to try to deliver a record."""
    partitioner_ignore_keys: bool = False
    """Choose partitions as if records had no keys."""
    enable_tracing: bool = False
    """Make spans with OpenTelemetry."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    group_id: str = ""
    """The consumer group."""
    group_protocol: str = "classic"
    """`classic`, or `consumer` (KIP-848)."""
    group_instance_id: str = ""
    """Makes a static member (KIP-345)."""
    group_remote_assignor: str = ""
    """`uniform` or `range`, with `group_protocol="consumer"`."""
    partition_assignment_strategy: str = "range,cooperative-sticky"
    """Assignors of the classic protocol, by preference: `range`, `roundrobin`, `sticky`, `cooperative-sticky`."""
    auto_offset_reset: str = "latest"
    """Where to start without a committed offset: `earliest`, `latest`, `none` or `by_duration:PT1H`."""
    enable_auto_commit: bool = True
    """Commit what poll returned: periodically at a poll, before partitions are revoked, and at close."""
    auto_commit_interval_ms: int = 5_000
    """Shortest time between two automatic commits."""
    session_timeout_ms: int = 45_000
    """A classic member that sends no heartbeat for this long is removed from the group."""
    heartbeat_interval_ms: int = 3_000
    """Time between two heartbeats of a classic member."""
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for this long leaves the group."""
    max_poll_records: int = 500
    """Records per poll."""
    isolation_level: str = "read_uncommitted"
    """`read_committed` leaves out what open and aborted transactions wrote."""
    fetch_min_bytes: int = 1
    """The broker responds once it has this many bytes…"""
    fetch_max_bytes: int = 52_428_800
    """Bytes per fetch."""
    fetch_max_wait_ms: int = 500
    """…or after this long."""
    max_partition_fetch_bytes: int = 1_048_576
    """Bytes per partition and fetch."""
    queued_max_bytes: int = 67_108_864
    """Bytes that may be fetched ahead of the program."""
    check_crcs: bool = True
    """Verify the checksum of every batch."""
    exclude_internal_topics: bool = True
    """A pattern does not match the brokers' own topics."""
    enable_tracing: bool = False
    """Make spans with OpenTelemetry."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    group_id: str = ""
    """The share group."""
    share_acknowledgement_mode: str = "implicit"
    """`implicit`: the next poll accepts; `explicit`: the program acknowledges each record."""
    share_acquire_mode: str = "batch_optimized"
    """`batch_optimized`: whole batches; `record_limit`: never more than requested."""
    max_poll_records: int = 500
    """Records per poll."""
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for this long leaves the group."""
    fetch_min_bytes: int = 1
    """The broker responds once it has this many bytes…"""
    fetch_max_bytes: int = 52_428_800
    """Bytes per fetch."""
    fetch_max_wait_ms: int = 500
    """…or after this long."""
    check_crcs: bool = True
    """Verify the checksum of every batch."""
    enable_tracing: bool = False
    """Make spans with OpenTelemetry."""


class ClientSettings(SecuritySettings, total=False):
    """The keyword arguments of every client (the fields of `ClientConfig`)."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    max_in_flight_requests_per_connection: int
    receive_message_max_bytes: int
    allow_auto_create_topics: bool
    enable_metrics_push: bool


class AdminSettings(ClientSettings, total=False):
    """The keyword arguments of `Admin`."""


class ProducerSettings(ClientSettings, total=False):
    """The keyword arguments of `Producer` (the fields of `ProducerConfig`)."""

    acks: Literal[-1, 0, 1, "all", "0", "1"]
    enable_idempotence: bool
    transactional_id: str
    transaction_timeout_ms: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_level: int
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    partitioner_ignore_keys: bool
    enable_tracing: bool


class ConsumerSettings(ClientSettings, total=False):
    """The keyword arguments of `Consumer` (the fields of `ConsumerConfig`)."""

    group_id: str
    group_protocol: Literal["classic", "consumer"]
    group_instance_id: str
    group_remote_assignor: str
    partition_assignment_strategy: str | Sequence[str]
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    queued_max_bytes: int
    check_crcs: bool
    exclude_internal_topics: bool
    enable_tracing: bool


class ShareConsumerSettings(ClientSettings, total=False):
    """The keyword arguments of `ShareConsumer` (the fields of `ShareConsumerConfig`)."""

    group_id: str
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    enable_tracing: bool


# Names of other clients that mean one of ours.
_SYNONYMS = {
    "bootstrap": "bootstrap_servers",
    "compression": "compression_type",
    "metadata_broker_list": "bootstrap_servers",
    **SYNONYMS,
}

_CHOICES: dict[str, tuple[str, ...]] = {
    "acks": ("all", "-1", "0", "1"),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "group_protocol": ("classic", "consumer"),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "security_protocol": PROTOCOLS,
    "share_acknowledgement_mode": ("implicit", "explicit"),
    "share_acquire_mode": ("batch_optimized", "record_limit"),
}


def load(cls: type[C], config: Mapping[str, object] | None, settings: Mapping[str, object]) -> C:
    """The config of class `cls` from a mapping (dotted or Python names) and keyword arguments (which win)."""
    types = _field_types(cls)  # type: ignore[arg-type]  # of a class whose instances have a hash
    values: dict[str, object] = {}
    for given in (config or {}), settings:
        for name, value in given.items():
            obeyed = translated(field_of(name), value)
            if obeyed is None:
                continue
            field, meant = obeyed
            if field not in types:
                raise UsageError(_unknown(name, types, dotted="." in name))
            values[field] = _converted(name, field, meant, types[field])
    made = dataclasses.replace(cls(), **values)  # type: ignore[arg-type]
    check_consistent(made)
    return made


def field_of(name: str) -> str:
    """The field that a setting's name means, be it dotted or another client's; unknown names as they are."""
    field = name.replace(".", "_").replace("-", "_").lower()
    return _SYNONYMS.get(field, field)


@functools.cache
def _field_types(cls: type[ClientConfig]) -> Mapping[str, object]:
    """Evaluating the annotations of a class takes a millisecond, and a program may have thousands of clients."""
    return typing.get_type_hints(cls)


def _unknown(name: str, types: Mapping[str, object], dotted: bool) -> str:
    guess = nearest(name.replace(".", "_"), types)
    if guess is None:
        return f"there is no setting {name!r}; docs/reference/client.md lists them all"
    return f"there is no setting {name!r}; did you mean {guess.replace('_', '.') if dotted else guess!r}?"


def _converted(name: str, field: str, value: object, expected: object) -> object:
    if field in _CHOICES:
        text = str(value).lower()
        if text not in _CHOICES[field]:
            raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(_CHOICES[field])}")
        return "all" if field == "acks" and text == "-1" else text
    if field == "sasl_mechanism" and value:
        return mechanism_of(name, value)
    if field == "sasl_oauth_token_provider" and (callable(value) or hasattr(value, "token")):
        return value
    kinds = typing.get_args(expected) or (expected,)
    if value is None and type(None) in kinds:
        return None
    convert = next((make for kind, make in _CONVERTERS.items() if kind in kinds), None)
    if convert is None:
        return value
    try:
        return convert(value)
    except (TypeError, ValueError):
        kind = next(k.__name__ for k in _CONVERTERS if k in kinds)
        shown = "a secret of another kind" if field in SECRETS else repr(value)
        raise UsageError(f"{name} is {shown}; it must be {_KIND_WORDS[kind]}") from None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ",".join(_text(part) for part in value)
    raise TypeError


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    return float(value)


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise TypeError


_CONVERTERS: dict[type, Callable[[object], object]] = {bool: _truth, int: _whole, float: _number, str: _text}
_KIND_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}


def parse_addresses(servers: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs; a port left out is 9092, IPv6 addresses stand in brackets."""
    addresses: list[tuple[str, int]] = []
    for part in servers.split(","):
        text = part.strip()
        if not text:
            continue
        if "://" in text:
            text = text.split("://", 1)[1]
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, "9092"
        if not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise UsageError(f"bootstrap_servers is {servers!r}; it must look like host:port or host1:port,host2:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise UsageError("bootstrap_servers is empty; name at least one broker as host:port")
    return addresses
