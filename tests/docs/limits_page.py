"""Writes docs/reference/limits.md from the constants and configs. Run it as `python -m tests.docs.limits_page`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from penstock.broker import authentication, connection, http, telemetry, topics
from penstock.broker.config import providers
from penstock.broker.config.broker import BROKER
from penstock.broker.config.group import GROUP
from penstock.broker.config.topic import TOPIC
from penstock.broker.handlers import acls
from penstock.broker.handlers import topics as topic_handlers
from penstock.broker.share import windows, workers
from penstock.broker.vitals import FULL_BYTES
from penstock.cli import serve
from penstock.client import config as client_config
from penstock.client import dead_letters, sync
from penstock.console import decoders, filters, guard
from penstock.coordination import regex
from penstock.groups import timeline
from penstock.log import files, producer_state
from penstock.records import codecs
from penstock.security import scram
from penstock.wire import compiler

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"

_INTRODUCTION = """\
# Limits

Every queue, buffer, cache and request in Penstock is bounded. This page lists the bounds that clients and operators can
reach, with their defaults, the setting that changes each of them, and what happens at the bound. A dash means that the
bound is fixed.

This page is generated from the code (`python -m tests.docs.limits_page`).
"""


class Limit(NamedTuple):
    what: str
    value: str
    setting: str
    beyond: str


def config(name: str, what: str, beyond: str, unit: str = "") -> Limit:
    """A bound that is a config of the broker, a topic or a group."""
    for table, kind in ((BROKER, ""), (TOPIC, " (topic)"), (GROUP, " (group)")):
        if name in table:
            definition = table[name]
            assert definition.is_used, name
            default = definition.default
            assert default is not None, name
            shown = "none" if default in ("2147483647", "-1") else quantity(int(default), unit)
            return Limit(what, shown, f"`{name}`{kind}", beyond)
    raise LookupError(name)


def fixed(value: int, what: str, beyond: str, unit: str = "") -> Limit:
    return Limit(what, quantity(value, unit), "—", beyond)


def client(name: str, owner: type, what: str, beyond: str, unit: str = "") -> Limit:
    return Limit(what, quantity(int(getattr(owner(), name)), unit), f"`{name}`", beyond)


def quantity(value: int, unit: str) -> str:
    """A number as people read it: `64 MiB`, `30 s`, `100,000`."""
    if unit == "bytes":
        for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if value >= size and value % (size // 64) == 0:
                return f"{value / size:g} {name}"
    if unit == "ms":
        for size, name in ((86_400_000, "days"), (60_000, "min"), (1000, "s")):
            if value >= size and value % size == 0:
                return f"{value // size} {name}"
    return f"{value:,} {unit}".strip()


LIMITS: dict[str, list[Limit]] = {
    "Topics and records": [
        fixed(topics.MAX_NAME, "length of a topic name", "INVALID_TOPIC_EXCEPTION", "characters"),
        fixed(topics.MAX_PARTITIONS, "partitions of a topic", "INVALID_PARTITIONS"),
        fixed(
            topic_handlers.MAX_PARTITIONS_OF_REQUEST, "partitions created by one request", "POLICY_VIOLATION: split it"
        ),
        config("message.max.bytes", "size of a batch, as stored", "MESSAGE_TOO_LARGE", "bytes"),
        config("max.message.bytes", "the same, for one topic", "MESSAGE_TOO_LARGE", "bytes"),
        fixed(
            codecs.DEFAULT_LIMIT,
            "size of a batch, decompressed",
            "MESSAGE_TOO_LARGE when producing, CORRUPT_MESSAGE when consuming with `penstock.client`",
            "bytes",
        ),
        fixed(
            producer_state.BATCHES_REMEMBERED,
            "batches of an idempotent producer whose repetition is recognized, per partition",
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
        ),
        config("segment.bytes", "size of a segment", "the next segment begins", "bytes"),
        config(
            "retention.ms",
            "age of the records that are kept",
            "the oldest segments are deleted",
            "ms",
        ),
        config("retention.bytes", "size of a partition", "the oldest segments are deleted", "bytes"),
        config(
            "offset.metadata.max.bytes",
            "length of the text stored with an offset",
            "OFFSET_METADATA_TOO_LARGE",
            "bytes",
        ),
    ],
    "Requests and connections": [
        config("socket.request.max.bytes", "size of a request", "the connection is closed", "bytes"),
        fixed(compiler.MAX_ELEMENTS, "array elements in a request", "the connection is closed"),
        fixed(
            connection.MAX_IN_FLIGHT,
            "unanswered requests of a connection",
            "the broker stops reading the connection until it has answered some",
        ),
        fixed(
            connection.MAX_QUEUED_BYTES,
            "responses of a connection that wait for the client to read",
            "the broker stops reading the connection until the client has read some",
            "bytes",
        ),
        config("fetch.max.bytes", "size of a fetch response", "the response is cut after a whole batch", "bytes"),
        config(
            "max.incremental.fetch.session.cache.slots",
            "fetch sessions",
            "a session unused for 2 minutes is evicted; if there is none, the fetch is answered without a session",
        ),
        config("max.connections", "connections", "the new connection is closed, and logged"),
        config("max.connections.per.ip", "connections of an address", "the new connection is closed, and logged"),
        config("max.connection.creation.rate", "new connections per second", "the connection waits to be accepted"),
        config("connections.max.idle.ms", "time without a request", "the connection is closed", "ms"),
        config(
            "socket.listen.backlog.size", "connections that wait to be accepted", "the operating system refuses them"
        ),
        fixed(http.MAX_CONNECTIONS, "connections to the monitoring endpoint", "the connection is closed"),
        config("penstock.metrics.series.max", "series of a metric", "the rest is left out and counted"),
    ],
    "Security": [
        config(
            "penstock.unauthenticated.connections.max",
            "connections that have not authenticated yet",
            "the oldest one of the address with the most is closed",
        ),
        config(
            "penstock.unauthenticated.connections.max.per.ip",
            "the same, of one address",
            "the oldest one of the address is closed",
        ),
        config("penstock.authentication.timeout.ms", "time to authenticate", "the connection is closed", "ms"),
        config(
            "sasl.server.max.receive.size",
            "size of a request before authentication",
            "the connection is closed",
            "bytes",
        ),
        fixed(authentication.MAX_BYTES_BEFORE, "bytes sent before authentication", "the connection is closed", "bytes"),
        config(
            "penstock.unauthenticated.bytes.max",
            "memory for requests of unauthenticated clients",
            "the connection with the largest request is closed",
            "bytes",
        ),
        fixed(scram.MAX_ITERATIONS, "iterations of a SCRAM credential", "UNACCEPTABLE_CREDENTIAL"),
        fixed(acls.MOST_PER_REQUEST, "ACLs created or deleted by one request", "POLICY_VIOLATION or INVALID_REQUEST"),
        fixed(
            providers.LARGEST_FILE_BYTES,
            "size of a file that a config provider reads",
            "the broker does not start",
            "bytes",
        ),
    ],
    "Consumer groups and transactions": [
        config("group.max.size", "members of a classic group", "GROUP_MAX_SIZE_REACHED"),
        config("group.consumer.max.size", "members of a consumer group", "GROUP_MAX_SIZE_REACHED"),
        config(
            "group.min.session.timeout.ms",
            "shortest session timeout of a classic member",
            "INVALID_SESSION_TIMEOUT",
            "ms",
        ),
        config(
            "group.max.session.timeout.ms",
            "longest session timeout of a classic member",
            "INVALID_SESSION_TIMEOUT",
            "ms",
        ),
        config(
            "offsets.retention.minutes",
            "minutes for which offsets of an empty group are kept",
            "the offsets are deleted",
        ),
        fixed(
            regex.PATTERN_LENGTH_MAX,
            "length of a subscription pattern that the broker matches",
            "INVALID_REGULAR_EXPRESSION",
            "characters",
        ),
        fixed(regex.REPEAT_MAX, "count of a repetition in such a pattern", "INVALID_REGULAR_EXPRESSION"),
        config("transaction.max.timeout.ms", "longest transaction timeout", "INVALID_TRANSACTION_TIMEOUT", "ms"),
        fixed(timeline.EVENTS_PER_GROUP, "rebalance events remembered for a group", "the oldest events are forgotten"),
        fixed(timeline.EVENTS_MAX, "rebalance events remembered in all", "the quietest group is forgotten first"),
    ],
    "Queues (share groups)": [
        config("group.share.max.size", "members of a share group", "GROUP_MAX_SIZE_REACHED"),
        config("group.share.max.share.sessions", "share sessions of a broker", "SHARE_SESSION_LIMIT_REACHED"),
        config(
            "share.partition.max.record.locks",
            "records in flight per partition",
            "workers get no more records until some are acknowledged",
        ),
        config(
            "share.delivery.count.limit",
            "deliveries of a record",
            "the record is archived, or goes to the dead-letter topic",
        ),
        config(
            "group.share.max.delivery.count.limit", "highest `share.delivery.count.limit` of a group", "INVALID_CONFIG"
        ),
        config("share.record.lock.duration.ms", "time to acknowledge a record", "the record is delivered again", "ms"),
        fixed(
            windows.CACHE_BYTES,
            "memory for records that queues deliver again",
            "records are read from the log",
            "bytes",
        ),
        fixed(
            workers.MEMBERS_MAX,
            "workers shown for a queue",
            "the worker that has been silent longest is no longer shown",
        ),
        fixed(
            dead_letters.MAX_SINGLES,
            "dead letters redriven one by one per partition",
            "`penstock share redrive` refuses: redrive the rest together",
        ),
    ],
    "Client metrics (KIP-714)": [
        config("telemetry.max.bytes", "size of a push", "TELEMETRY_TOO_LARGE", "bytes"),
        fixed(
            telemetry.CLIENTS_MAX,
            "clients whose metrics are kept",
            "the client that has been silent longest is forgotten",
        ),
        fixed(telemetry.VALUES_PER_CLIENT_MAX, "values kept per client", "the rest is left out"),
        fixed(telemetry.VALUES_MAX, "values kept in all", "the rest is left out"),
    ],
    "Disk and processes": [
        fixed(FULL_BYTES, "free space below which `/readyz` reports a full disk", "`/readyz` answers 503", "bytes"),
        fixed(files.DEFAULT_OPEN_FILES_MAX, "segment files kept open", "the least recently used file is closed"),
        config(
            "log.cleaner.dedupe.buffer.size",
            "memory of the log cleaner for keys",
            "a log is compacted in several rounds",
            "bytes",
        ),
        fixed(serve.MAX_BROKERS, "brokers of one machine (`--brokers`)", "the command refuses"),
        config(
            "penstock.store.cache.bytes",
            "disk space for segments that are in the object store",
            "the oldest are removed from the disk",
            "bytes",
        ),
    ],
    "Python client": [
        client("buffer_memory", client_config.ProducerConfig, "bytes that wait to be sent", "`send` waits", "bytes"),
        client("max_block_ms", client_config.ProducerConfig, "time that `send` waits", "`RequestTimeout`", "ms"),
        client(
            "max_request_size",
            client_config.ProducerConfig,
            "size of a record, and of a request",
            "`MessageTooLarge`",
            "bytes",
        ),
        client(
            "delivery_timeout_ms", client_config.ProducerConfig, "time to deliver a record", "the delivery fails", "ms"
        ),
        client(
            "max_in_flight_requests_per_connection",
            client_config.ProducerConfig,
            "unanswered requests per connection",
            "further batches wait",
        ),
        client(
            "queued_max_bytes",
            client_config.ConsumerConfig,
            "bytes fetched and not read yet",
            "fetching pauses",
            "bytes",
        ),
        client(
            "max_poll_records",
            client_config.ConsumerConfig,
            "records returned by a poll",
            "the next poll returns the rest",
        ),
        client(
            "max_poll_interval_ms",
            client_config.ConsumerConfig,
            "time between two polls",
            "the group reassigns the partitions",
            "ms",
        ),
        fixed(
            vars(sync)["HANDOVER_LIMIT"],
            "records on their way to the event loop (`penstock.client.sync`)",
            "`send` waits",
        ),
    ],
    "Web console": [
        fixed(guard.MAX_BODY_BYTES, "size of a form", "status 413", "bytes"),
        fixed(filters.MAX_LENGTH, "length of a search expression", "the console refuses the expression", "characters"),
        fixed(decoders.MAX_BYTES, "size of a value that is decoded", "the value is shown as bytes", "bytes"),
    ],
}


def page() -> str:
    sections = (f"\n## {title}\n{_table(limits)}" for title, limits in LIMITS.items())
    return _INTRODUCTION + "".join(sections)


def _table(limits: Iterable[Limit]) -> str:
    rows = (f"| {' | '.join(limit)} |" for limit in limits)
    return "\n| what | default | setting | at the bound |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
