"""`penstock top`: what the brokers do right now, from their `/metrics`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from penstock.cli.failures import Failure
from penstock.cli.monitoring import Reading, addresses_or_failure, monitoring_option, read_all
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.running import with_admin
from penstock.client.scrapes import Between

_REQUESTS = "kafka_network_requestmetrics_totaltimems"
_HANDLING = "kafka_network_requestmetrics_localtimems"
_TRAFFIC = "kafka_server_brokertopicmetrics_"


@dataclass(frozen=True, slots=True)
class TopicRate:
    topic: str
    records_in_per_second: float
    bytes_in_per_second: float
    bytes_out_per_second: float


@dataclass(frozen=True, slots=True)
class RequestTime:
    request: str
    per_second: float
    p99_ms: float | None
    handling_ms: float | None


@dataclass(frozen=True, slots=True)
class GroupLag:
    group: str
    topic: str
    lag: int
    age_seconds: float
    progress_seconds_ago: float | None
    deliveries_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Everything that `penstock top` shows; the worst first."""

    seconds: float
    brokers: int
    """How many are watched."""
    silent: dict[str, str]
    """Why brokers are missing, by address."""
    topics: list[TopicRate]
    requests: list[RequestTime]
    groups: list[GroupLag]
    queues: list[GroupLag]


def view(before: Reading, after: Reading, seconds: float) -> View:
    between = Between(before.brokers, after.brokers, seconds)
    return View(
        seconds,
        len(after.brokers),
        after.silent,
        sorted(_topics(between), key=lambda each: -each.bytes_in_per_second - each.bytes_out_per_second),
        sorted(_requests(between), key=lambda each: -(each.p99_ms or 0)),
        sorted(_lags(between, "penstock_group", "commit"), key=lambda each: -each.lag),
        sorted(_lags(between, "penstock_share_group", "acknowledgement"), key=lambda each: -each.age_seconds),
    )


def _topics(between: Between) -> list[TopicRate]:
    by_kind = [between.rates(_TRAFFIC + kind, "topic") for kind in ("messagesin_total", "bytesin_total")]
    records, bytes_in, bytes_out = *by_kind, between.rates(_TRAFFIC + "bytesout_total", "topic")
    topics = sorted({*records, *bytes_in, *bytes_out})
    rates = [
        TopicRate(topic, records.get((topic,), 0.0), bytes_in.get((topic,), 0.0), bytes_out.get((topic,), 0.0))
        for (topic,) in topics
        if topic
    ]
    return [rate for rate in rates if rate.bytes_in_per_second or rate.bytes_out_per_second]


def _requests(between: Between) -> list[RequestTime]:
    counts = between.rates(f"{_REQUESTS}_count", "request")
    return [
        RequestTime(
            request,
            rate,
            between.quantile(_REQUESTS, 0.99, "request", request),
            between.mean(_HANDLING, "request", request),
        )
        for (request,), rate in counts.items()
        if rate
    ]


def _lags(between: Between, prefix: str, progress: str) -> list[GroupLag]:
    def by_group(name: str) -> dict[tuple[str, str], float]:
        return {(labels["group"], labels["topic"]): value for labels, value in between.gauges(f"{prefix}_{name}")}

    ages, progresses = by_group("lag_age_seconds"), by_group(f"{progress}_age_seconds")
    deliveries = between.rates("penstock_share_deliveries_total", "group", "topic") if "share" in prefix else None
    return [
        GroupLag(
            *key,
            int(lag),
            ages.get(key, 0.0),
            progresses.get(key),
            None if deliveries is None else deliveries.get(key, 0.0),
        )
        for key, lag in by_group("lag_records_sum").items()
    ]


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@option("--interval", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between two updates.")
@option("--rows", type=click.IntRange(1), default=8, show_default=True, help="The most rows of each table.")
@option("--once", is_flag=True, help="Show one interval and stop.")
@monitoring_option
@bootstrap_option
@json_option
def top(interval: float, rows: int, once: bool, monitoring: Sequence[str], bootstrap: str, as_json: bool) -> None:
    """Show live what the brokers do: rates, slowest requests, groups by lag, queues by age.

    All brokers that have a penstock.metrics.listen are shown together, those of a cluster and those of --brokers N.
    It goes on until Ctrl-C, and waits for brokers that are restarted.

    Times of requests are those of one interval, and include the time that a fetch waits for data; HANDLER is the mean
    time in the broker's own code. With --json, every interval is one line.

    \b
      penstock top
      penstock top --once --json
    """
    addresses = monitoring or with_admin(
        bootstrap, lambda admin: addresses_or_failure(admin, bootstrap, "what it does")
    )
    before, since = read_all(addresses), time.monotonic()
    while True:
        time.sleep(interval)
        try:
            after, now = read_all(addresses), time.monotonic()
        except Failure as failure:
            if once:
                raise
            note(str(failure).splitlines()[0])  # brokers are restarted, and come back
            continue
        found = view(before, after, now - since)
        if as_json:
            print_json(asdict(found))
            sys.stdout.flush()
        else:
            if not once:
                click.clear()
            _show(found, rows)
        if once:
            return
        before, since = after, now


def _show(found: View, rows: int) -> None:
    records = sum(each.records_in_per_second for each in found.topics)
    bytes_in = sum(each.bytes_in_per_second for each in found.topics)
    bytes_out = sum(each.bytes_out_per_second for each in found.topics)
    requests = sum(each.per_second for each in found.requests)
    click.echo(
        f"{records:,.0f} records/s in, {size(bytes_in)}/s in, {size(bytes_out)}/s out, {requests:,.0f} requests/s"
        + (f" on {found.brokers} brokers" if found.brokers > 1 else "")
    )
    for reason in found.silent.values():
        note(reason)
    click.echo("")
    if found.topics:
        _table(
            ["TOPIC", "RECORDS/S", "IN/S", "OUT/S"],
            [
                [
                    each.topic,
                    f"{each.records_in_per_second:,.0f}",
                    size(each.bytes_in_per_second),
                    size(each.bytes_out_per_second),
                ]
                for each in found.topics
            ],
            rows,
        )
    if found.requests:
        _table(
            ["REQUEST", "PER S", "P99", "HANDLER"],
            [
                [each.request, f"{each.per_second:,.1f}", duration_ms(each.p99_ms), duration_ms(each.handling_ms)]
                for each in found.requests
            ],
            rows,
        )
    if found.groups:
        _table(
            ["GROUP", "TOPIC", "LAG", "OLDEST", "LAST COMMIT"],
            [
                [
                    each.group,
                    each.topic,
                    f"{each.lag:,}",
                    duration(each.age_seconds),
                    duration(each.progress_seconds_ago),
                ]
                for each in found.groups
            ],
            rows,
        )
    if found.queues:
        _table(
            ["QUEUE", "TOPIC", "LAG", "OLDEST", "DELIVERIES/S", "LAST ACKNOWLEDGEMENT"],
            [
                [
                    each.group,
                    each.topic,
                    f"{each.lag:,}",
                    duration(each.age_seconds),
                    f"{each.deliveries_per_second or 0:,.1f}",
                    duration(each.progress_seconds_ago),
                ]
                for each in found.queues
            ],
            rows,
        )
    if not (found.topics or found.groups or found.queues):
        note("No topic was written or read, and there are no groups.")


def _table(columns: list[str], cells: list[list[str]], most: int) -> None:
    shown: list[list[Cell]] = [list(row) for row in cells[:most]]
    print_table(columns, shown)
    left_out = len(cells) - most
    click.echo(f"and {left_out} more\n" if left_out > 0 else "")


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def duration_ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.3g} ms"


def duration(seconds: float | None) -> str:
    """Seconds as people read them."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
