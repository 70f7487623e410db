"""`penstock load`: topics into a table, with Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.connecting import spark_settings
from penstock.cli.failures import Failure, explain
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option, pairs
from penstock.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from penstock.spark.load import LoadSummary, Progress


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("topics", nargs=-1, required=True)
@option("--to", required=True, metavar="WHERE", help="A folder, a URI (s3://…) or postgresql://….")
@option("--format", "format_", type=click.Choice(["delta", "parquet", "postgres"]), help="[default: delta]")
@option("--table", default="", help="The table, for PostgreSQL.")
@option("--name", default="", help="Name of this load, if several load into one table.  [default: the topics]")
@option("--parse", type=click.Choice(["json", "avro"]), help="Parse values into columns.")
@option("--schema", metavar="TEXT|FILE", help="Columns for JSON ('id bigint, name string'), a schema for Avro.")
@option(
    "--keep",
    default="topic,partition,offset",
    show_default=True,
    help="Columns of the record to keep as well.",
)
@option("--skip-bad", is_flag=True, help="Leave out values that cannot be parsed, instead of failing.")
@option("--columns", default="", help="Columns of the record to load, without --parse.  [default: all but headers]")
@option("--partition-by", default="", metavar="COLUMNS", help="Folders by these columns; date is the record's day.")
@option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the Spark source.")
@option("--tasks", type=click.IntRange(1), help="Run at least this many tasks; large partitions are split.")
@option("--compact", is_flag=True, help="Merge small files afterwards.")
@option("--vacuum", type=click.IntRange(0), metavar="HOURS", help="Remove files older than this that no version needs.")
@option("--every", type=click.FloatRange(0.1), metavar="SECONDS", help="Load again and again, until Ctrl-C.")
@option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@option("--dry-run", is_flag=True, help="Show what would be read, and by how many tasks.")
@option("--folder", metavar="DIR", help="Record each run here, for the console; pipelines use penstock-pipelines.")
@json_option
@bootstrap_option
def load(
    topics: tuple[str, ...],
    to: str,
    format_: str | None,
    table: str,
    name: str,
    parse: str | None,
    schema: str | None,
    keep: str,
    skip_bad: bool,
    columns: str,
    partition_by: str,
    options: tuple[str, ...],
    tasks: int | None,
    compact: bool,
    vacuum: int | None,
    every: float | None,
    master: str,
    dry_run: bool,
    folder: str | None,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Load what is new in TOPICS into a table, each record exactly once.

    The table itself remembers up to where it was loaded: run the same command again for what came since.

    \b
      penstock load orders --to lake/orders --partition-by date
      penstock load orders --to lake/orders --parse json --schema 'id bigint, name string'
      penstock load orders --to postgresql://localhost/shop --table orders --every 60
    """
    from penstock.client.security import SecurityConfig
    from penstock.spark.java import SetupError
    from penstock.spark.load import load as run_load
    from penstock.spark.options import COLUMNS
    from penstock.spark.security import as_options
    from penstock.spark.session import check_versions, session

    servers, security = spark_settings(bootstrap)
    secured = as_options(SecurityConfig(**security))  # type: ignore[arg-type]
    try:
        check_versions()
        spark = None if dry_run else session(f"penstock load {to}", master)
    except SetupError as error:
        raise Failure(str(error)) from error
    while True:
        with explained(), noted(folder, name or ",".join(topics)) as note_run, progress_bar("loading") as progress:
            summary = run_load(
                topics,
                to,
                bootstrap_servers=servers,
                format=format_,
                table=table,
                name=name,
                parse=parse,
                schema=_schema(schema),
                keep=_names(keep),
                skip_bad=skip_bad,
                columns=_names(columns) or COLUMNS,
                partition_by=_names(partition_by),
                options={**secured, **pairs(options, "--option")},
                tasks=tasks,
                compact=compact,
                vacuum_hours=vacuum,
                dry_run=dry_run,
                progress=progress,
                spark=spark,
            )
            note_run(summary)
        show(summary, dry_run, as_json)
        if every is None or dry_run:
            return
        time.sleep(every)


def _schema(text: str | None) -> str | None:
    return Path(text).read_text() if text is not None and len(text) < 4096 and Path(text).is_file() else text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@contextmanager
def explained() -> Iterator[None]:
    """Errors of the pipeline as failures with their reason, not with Spark's pages of Java."""
    try:
        yield
    except (click.ClickException, KeyboardInterrupt):
        raise
    except Exception as error:
        from penstock.spark.failures import reason

        raise Failure(explain(error) or reason(error)) from error


@contextmanager
def noted(folder: str | None, name: str) -> Iterator[Callable[[LoadSummary], None]]:
    """Note a run in the history of its name: what it did, or why it failed."""
    if folder is None:
        yield lambda summary: None
        return
    from datetime import UTC, datetime

    from penstock.spark.failures import reason
    from penstock.spark.pipelines import History, RunSummary

    history, clock = History(folder, name), time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")

    def note_run(done: LoadSummary) -> None:
        counts = (done.rows, done.bytes, done.files, done.tasks, done.lag_before, done.lag_after)
        history.add(RunSummary(name, started, round(done.seconds, 3), *counts))

    try:
        yield note_run
    except Exception as error:
        history.add(RunSummary(name, started, round(time.monotonic() - clock, 3), error=reason(error) or repr(error)))
        raise


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A progress bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def show(summary: LoadSummary, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(as_dict(summary))
    elif dry_run:
        rows = [(piece.topic, piece.partition, piece.start, piece.end, piece.size) for piece in summary.ranges]
        print_table(("TOPIC", "PARTITION", "FROM", "TO", "AT MOST"), rows)
        note(f"{summary.tasks} tasks, at most {summary.lag_before:,} rows into {summary.target}. Nothing was changed.")
    elif not summary.tasks:
        note(f"{summary.target} is up to date.")
    else:
        note(describe(summary))


def describe(summary: LoadSummary) -> str:
    return (
        f"{summary.rows:,} rows into {summary.target} in {summary.seconds:.1f} s "
        f"({summary.rows_per_second:,.0f} rows/s): {summary.files} files, {summary.bytes / 1e6:,.1f} MB, "
        f"{summary.tasks} tasks; lag {summary.lag_before:,} before, {summary.lag_after:,} after"
    )


def as_dict(summary: LoadSummary) -> dict[str, object]:
    from penstock.spark.ranges import to_json

    return {
        "name": summary.name,
        "target": summary.target,
        "rows": summary.rows,
        "bytes": summary.bytes,
        "files": summary.files,
        "tasks": summary.tasks,
        "seconds": round(summary.seconds, 3),
        "rows_per_second": round(summary.rows_per_second),
        "lag_before": summary.lag_before,
        "lag_after": summary.lag_after,
        "start": to_json(summary.start),
        "end": to_json(summary.end),
    }
