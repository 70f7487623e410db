"""`penstock work`: a share group's workers on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from penstock.cli.connecting import spark_settings
from penstock.cli.failures import Failure
from penstock.cli.load import explained
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option
from penstock.cli.output import note, print_json

if TYPE_CHECKING:
    from penstock.spark.control import Counters
    from penstock.spark.worker import Handler
    from penstock.spark.workers import WorkSummary


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("topics", nargs=-1, required=True)
@option("--group", required=True, help="The share group.")
@option("--handler", required=True, metavar="FILE.py:NAME", help="The function to call for each record.")
@option("--parallelism", type=click.IntRange(1), default=8, show_default=True, help="Handlers at a time, over all.")
@option("--tasks", type=click.IntRange(1), help="Spark tasks to spread them over.  [default: all slots]")
@option("--follow", is_flag=True, help="Go on when nothing is left, until Ctrl-C.")
@option("--seconds", type=click.FloatRange(0), help="End after this time.")
@option("--from-beginning", is_flag=True, help="Where the group is new, begin with the oldest record.")
@option("--master", default="local[*,4]", show_default=True, help="Where Spark runs.")
@json_option
@bootstrap_option
def work(
    topics: tuple[str, ...],
    group: str,
    handler: str,
    parallelism: int,
    tasks: int | None,
    follow: bool,
    seconds: float | None,
    from_beginning: bool,
    master: str,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Call a Python function for every record of TOPICS that a share group hands out, on Spark.

    A record is accepted when the function returns, released for another delivery when it raises, rejected when it
    raises penstock.client.Reject. Ends when nothing is left to do, unless --follow.

    \b
      penstock work images --group resize --handler handlers.py:resize --parallelism 64
    """
    from penstock.spark.java import SetupError
    from penstock.spark.objects import load_object
    from penstock.spark.session import check_versions, session
    from penstock.spark.workers import work as run_work

    servers, security = spark_settings(bootstrap)
    try:
        check_versions()
        function = load_object(handler)
        if not callable(function):
            raise click.UsageError(f"{handler} is {function!r}, which cannot be called.")
        spark = session(f"penstock work {group}", master)
    except SetupError as error:
        raise Failure(str(error)) from error
    with explained(), counting(f"{group} works on {', '.join(topics)}") as on_progress:
        summary = run_work(
            topics,
            group,
            cast("Handler", function),
            parallelism,
            bootstrap_servers=servers,
            security=security,
            until_empty=not follow and seconds is None,
            seconds=seconds,
            tasks=tasks,
            auto_offset_reset="earliest" if from_beginning else None,
            spark=spark,
            on_progress=on_progress,
        )
    if as_json:
        print_json(as_dict(summary))
    else:
        note(str(summary))


def as_dict(summary: WorkSummary) -> dict[str, object]:
    return {
        "topics": list(summary.topics),
        "group": summary.group,
        **asdict(summary.counters),
        "tasks": summary.tasks,
        "attempts": summary.attempts,
        "seconds": round(summary.seconds, 3),
        "records_per_second": round(summary.records_per_second),
        "lag_before": summary.lag_before,
        "lag_after": summary.lag_after,
    }


@contextmanager
def counting(title: str) -> Iterator[Callable[[Counters], object] | None]:
    """Counters that move on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as status:
        yield lambda done: status.update(
            f"{title}: {done.accepted:,} accepted, {done.released:,} released, {done.rejected:,} rejected"
        )
