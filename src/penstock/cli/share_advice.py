"""`penstock share advise`: how many workers a queue needs, estimated by watching the brokers for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure
from penstock.cli.group_parts import describe_groups
from penstock.cli.monitoring import addresses_or_failure, monitoring_option, read_all
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option
from penstock.cli.output import note, print_json
from penstock.cli.running import with_admin
from penstock.cli.top import duration
from penstock.client.queue_advice import Advice, UnknownQueue, advise
from penstock.client.scrapes import ByBroker

if TYPE_CHECKING:
    from penstock.client.admin import Admin


@click.command("advise", cls=Command, context_settings=CONTEXT_SETTINGS)
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
    help="Within what time to work off the backlog.",
)
@monitoring_option
@bootstrap_option
@json_option
def advise_command(
    group: str,
    seconds: float,
    handling_time: float | None,
    concurrency: int,
    catch_up: float,
    monitoring: Sequence[str],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Estimate how many workers a queue needs, from its arrival rate and how long records are held.

    \b
      penstock share advise resize
      penstock share advise resize --handling-time 1.5 --concurrency 8
    """

    async def measure(admin: Admin) -> tuple[Sequence[str], int]:
        (found,) = await describe_groups(admin, (group,), ("share",), "share", "share")
        return monitoring or await addresses_or_failure(admin, bootstrap, "its queues"), len(found.members)

    addresses, workers = with_admin(bootstrap, measure)
    silent: dict[str, str] = {}

    def scrape() -> ByBroker:
        reading = read_all(addresses)
        silent.update(reading.silent)
        return reading.brokers

    scrapes = watch(scrape, seconds)
    for reason in silent.values():
        note(f"{reason} The advice is without this broker.")
    try:
        advice = advise(
            scrapes,
            group,
            workers,
            handling_seconds=handling_time,
            concurrency=concurrency,
            catch_up_seconds=catch_up,
        )
    except UnknownQueue:
        raise Failure(
            f"No broker shows a queue of a share group '{group}'.\n  See which there are:  penstock share list"
        ) from None
    if as_json:
        print_json(asdict(advice))
    else:
        click.echo("\n".join(explain(advice)))


def watch(read: Callable[[], ByBroker], seconds: float) -> list[tuple[float, ByBroker]]:
    """Scrapes over so many seconds, ten or so."""
    scrapes: list[tuple[float, ByBroker]] = []
    ends = time.monotonic() + seconds
    while True:
        scrapes.append((time.monotonic(), read()))
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
