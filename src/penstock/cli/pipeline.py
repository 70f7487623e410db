"""`penstock pipeline`: run declared pipelines, and look at their runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from penstock.cli.connecting import spark_settings
from penstock.cli.failures import Failure
from penstock.cli.load import explained, progress_bar
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from penstock.spark.pipelines import DryRun, RunSummary

folder_option = option(
    "--folder", default="penstock-pipelines", show_default=True, help="Where run history and checkpoints are kept."
)


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def pipeline() -> None:
    """Run pipelines that a Python or YAML file declares (docs/how-to/spark.md), and look at their runs."""


@pipeline.command(context_settings=CONTEXT_SETTINGS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@option("--dry-run", is_flag=True, help="Show what would be read, and by how many tasks.")
@folder_option
@json_option
@bootstrap_option
def run(file: str, master: str, dry_run: bool, folder: str, as_json: bool, bootstrap: str) -> None:
    """Run the pipeline in FILE: once, or again and again if it says every_seconds.

    \b
      penstock pipeline run orders.py
      penstock pipeline run orders.yaml --master spark://spark:7077
      penstock pipeline run orders.yaml --dry-run
    """
    from penstock.spark import pipelines
    from penstock.spark.java import SetupError
    from penstock.spark.session import session

    servers, security = spark_settings(bootstrap)
    with explained():
        declared = pipelines.read_pipeline(file)
        if dry_run:
            _show_plan(pipelines.dry_run(declared, bootstrap_servers=servers, security=security), as_json)
            return
    try:
        spark = session(f"penstock pipeline {declared.name}", master)
    except SetupError as error:
        raise Failure(str(error)) from error
    while True:
        with explained(), progress_bar(declared.name) as progress:
            summary = pipelines.run(
                declared,
                bootstrap_servers=servers,
                security=security,
                folder=folder,
                progress=progress,
                spark=spark,
            )
        if as_json:
            print_json(as_dict(summary))
        else:
            note(describe(summary))
        if declared.every_seconds is None:
            return
        time.sleep(declared.every_seconds)


@pipeline.command(context_settings=CONTEXT_SETTINGS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many runs.")
@folder_option
@json_option
def history(file: str, last: int, folder: str, as_json: bool) -> None:
    """Show the last runs of the pipeline in FILE."""
    from penstock.spark import pipelines

    with explained():
        runs = pipelines.History(folder, pipelines.read_pipeline(file)).read()[-last:]
    if as_json:
        print_json([as_dict(summary) for summary in runs])
        return
    rows = [
        (one.started, one.rows, f"{one.seconds:.1f}", one.files, one.lag_before, one.lag_after, one.error or "ok")
        for one in runs
    ]
    print_table(("STARTED", "ROWS", "SECONDS", "FILES", "LAG BEFORE", "LAG AFTER", "RESULT"), rows)


def as_dict(summary: RunSummary) -> dict[str, object]:
    return {name: getattr(summary, name) for name in type(summary).__slots__}


def describe(summary: RunSummary) -> str:
    text = (
        f"{summary.pipeline}: {summary.rows:,} rows in {summary.seconds:.1f} s ({summary.rows_per_second:,.0f} rows/s)"
    )
    if summary.files:
        text += f", {summary.files} files, {summary.bytes / 1e6:,.1f} MB"
    if summary.lag_before is not None and summary.lag_after is not None:
        text += f"; lag {summary.lag_before:,} before, {summary.lag_after:,} after"
    return text


def _show_plan(plan: DryRun, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "pipeline": plan.pipeline.name,
                "tasks": plan.tasks,
                "rows_at_most": plan.rows_at_most,
                "ranges": [
                    {"topic": p.topic, "partition": p.partition, "from": p.start, "to": p.end} for p in plan.ranges
                ],
            }
        )
        return
    rows = [(piece.topic, piece.partition, piece.start, piece.end, piece.size) for piece in plan.ranges]
    print_table(("TOPIC", "PARTITION", "FROM", "TO", "AT MOST"), rows)
    note(f"{plan.tasks} tasks, at most {plan.rows_at_most:,} rows. Nothing was changed.")
