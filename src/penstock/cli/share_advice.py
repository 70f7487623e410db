"""`penstock share advise`: how many workers a queue needs.

The broker is watched for a while. By Little's law the mean time that a worker has a record is the mean number of
records held divided by the rate at which they are delivered, so the broker can tell it although it sees no handler.
Workers that take more than they handle at once make it look longer; whoever knows the time better says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure
from penstock.cli.group_parts import describe_groups
from penstock.cli.monitoring import address_or_failure, read_text
from penstock.cli.options import bootstrap_option, json_option, option
from penstock.cli.output import print_json
from penstock.cli.running import with_admin
from penstock.cli.scrapes import Between, Samples, parse
from penstock.cli.top import duration

if TYPE_CHECKING:
    from penstock.client.admin import Admin

_LAG = "penstock_share_group_lag_records_sum"
_AGE = "penstock_share_group_lag_age_seconds"
_HELD = "penstock_share_group_held_records"
_DELIVERIES = "penstock_share_deliveries_total"
_IN = "kafka_server_brokertopicmetrics_messagesin_total"
_BUSY = 0.8  # a worker that is busier than this makes records wait for no good reason


@dataclass(frozen=True, slots=True)
class Advice:
    group: str
    topics: list[str]
    workers: int
    lag: int
    oldest_seconds: float
    arrivals_per_second: float
    done_per_second: float
    handling_seconds: float | None
    """The mean time that a worker has a record; None if it is not known."""
    workers_to_keep_up: int | None
    workers_to_catch_up: int | None
    catch_up_seconds: float


def advise(
    scrapes: Sequence[tuple[float, Samples]],
    group: str,
    workers: int,
    *,
    handling_seconds: float | None = None,
    concurrency: int = 1,
    catch_up_seconds: float = 300.0,
) -> Advice:
    """What two or more scrapes, each with its time, say about a queue."""
    (began, before), (ended, after) = scrapes[0], scrapes[-1]
    between = Between(before, after, ended - began)
    topics = sorted({dict(labels)["topic"] for labels in after.get(_LAG, {}) if dict(labels)["group"] == group})
    if not topics:
        raise Failure(
            f"The broker shows no queue of a share group '{group}'.\n"
            "  See which there are:  penstock share list\n"
            "  A cluster's brokers show those that they coordinate: name one with --monitoring"
        )
    arrivals = sum(rate for (topic,), rate in between.rates(_IN, "topic").items() if topic in topics)
    delivered = sum(rate for (owner,), rate in between.rates(_DELIVERIES, "group").items() if owner == group)
    lag_before, lag = (_total(samples, _LAG, group) for samples in (before, after))
    held = sum(_total(samples, _HELD, group) for _, samples in scrapes) / len(scrapes)
    if handling_seconds is None and delivered > 0:
        handling_seconds = held / delivered
    wanted = [arrivals, arrivals + lag / catch_up_seconds]
    needed: list[int | None] = [None, None]
    if handling_seconds is not None:
        needed = [max(1, math.ceil(rate * handling_seconds / concurrency / _BUSY - 1e-9)) for rate in wanted]
    return Advice(
        group=group,
        topics=topics,
        workers=workers,
        lag=int(lag),
        oldest_seconds=max(
            (value for labels, value in after.get(_AGE, {}).items() if dict(labels)["group"] == group), default=0.0
        ),
        arrivals_per_second=arrivals,
        done_per_second=max(0.0, arrivals - (lag - lag_before) / between.seconds),
        handling_seconds=handling_seconds,
        workers_to_keep_up=needed[0],
        workers_to_catch_up=needed[1],
        catch_up_seconds=catch_up_seconds,
    )


def _total(samples: Samples, name: str, group: str) -> float:
    return sum(value for labels, value in samples.get(name, {}).items() if dict(labels)["group"] == group)


@click.command("advise")
@click.argument("group", metavar="GROUP")
@option("--seconds", type=click.FloatRange(0.2), default=10.0, show_default=True, help="How long to watch the queue.")
@option(
    "--handling-time",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long a handler takes for a record; measured if left out.",
)
@option(
    "--concurrency", type=click.IntRange(1), default=1, show_default=True, help="Handlers that a worker runs at once."
)
@option(
    "--catch-up",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How soon the backlog should be worked off.",
)
@option("--monitoring", metavar="HOST:PORT", help="The broker's penstock.metrics.listen; asked from it if left out.")
@bootstrap_option
@json_option
def advise_command(
    group: str,
    seconds: float,
    handling_time: float | None,
    concurrency: int,
    catch_up: float,
    monitoring: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Say how many workers a queue needs, from how fast records arrive and how long they are held.

    \b
      penstock share advise resize
      penstock share advise resize --handling-time 1.5 --concurrency 8
    """

    async def ask(admin: Admin) -> tuple[str, int]:
        (found,) = await describe_groups(admin, (group,), ("share",), "share", "share")
        return monitoring or await address_or_failure(admin, bootstrap, "its queues"), len(found.members)

    address, workers = with_admin(bootstrap, ask)
    scrapes = watch(lambda: read_text(address, "/metrics"), seconds)
    advice = advise(
        scrapes,
        group,
        workers,
        handling_seconds=handling_time,
        concurrency=concurrency,
        catch_up_seconds=catch_up,
    )
    if as_json:
        print_json(asdict(advice))
    else:
        click.echo("\n".join(explain(advice)))


def watch(read: Callable[[], str], seconds: float) -> list[tuple[float, Samples]]:
    """Scrapes over so many seconds, ten or so."""
    scrapes: list[tuple[float, Samples]] = []
    ends = time.monotonic() + seconds
    while True:
        scrapes.append((time.monotonic(), parse(read())))
        left = ends - time.monotonic()
        if left <= 0 and len(scrapes) > 1:
            return scrapes
        time.sleep(max(min(left, seconds / 10), 0.05))


def explain(advice: Advice) -> list[str]:
    """Lines for people."""
    rate = f"{advice.arrivals_per_second:,.1f} records/s arrive, {advice.done_per_second:,.1f}/s are done"
    lines = [
        f"Queue '{advice.group}' ({', '.join(advice.topics)}): {rate}, {advice.lag:,} wait, "
        f"the oldest for {duration(advice.oldest_seconds)}.",
    ]
    if advice.handling_seconds is None:
        return [
            *lines,
            "Nobody took a record, so it is not known how long one takes.",
            f"  Start a worker, or say how long:  penstock share advise {advice.group} --handling-time SECONDS",
        ]
    now = "there is 1 now" if advice.workers == 1 else f"there are {advice.workers} now"
    lines.append(f"A worker has a record for {_took(advice.handling_seconds)}; {now}.")
    lines.append(f"  To keep up:                        {_workers(advice.workers_to_keep_up)}")
    if advice.workers_to_catch_up != advice.workers_to_keep_up:
        soon = f"To catch up within {duration(advice.catch_up_seconds)}:"
        lines.append(f"  {soon:<34} {_workers(advice.workers_to_catch_up)}")
    return lines


def _workers(count: int | None) -> str:
    return "1 worker" if count == 1 else f"{count:,} workers"


def _took(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
