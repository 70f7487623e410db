"""`python -m bench.run`: every row on Penstock and on Apache Kafka, side by side, as one table of ratios.

Rounds alternate between the two brokers so that both see the same machine; the first round of a row only warms up, and
the medians of the next three are compared. The table also goes to bench/results/<date>.json.

`--before COMMAND` compares with an earlier Penstock instead: what a change costs, measured in turns. `--brokers N`
compares one broker with N of them on this machine (`penstock serve --brokers N`).
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.harness import Bench, Measurement, Row, build_load, median
from bench.peers import KAFKA_VERSION, EarlierPeer, KafkaPeer, Peer, PeerError, PenstockPeer, SeveralPeer
from bench.rows import FAMILIES

RESULTS = Path(__file__).parent / "results"
PEERS: dict[str, type[Peer]] = {
    "kafka": KafkaPeer,
    "before": EarlierPeer,
    "penstock": PenstockPeer,
    "several": SeveralPeer,
}
NAMES = {"kafka": "Apache Kafka", "before": "before", "penstock": "one broker", "several": "several"}

Medians = dict[str, dict[str, Measurement]]
"""Row name, then broker name."""


def measure_rows(
    rows: list[Row], names: list[str], bench: Bench, rounds: int | None, progress: Progress
) -> tuple[Medians, dict[str, str]]:
    """Medians of what was measured, and what failed. An interrupted run keeps the rows that it has ended."""
    medians: Medians = {}
    failures: dict[str, str] = {}
    try:
        _measure(rows, names, bench, rounds, progress, medians, failures)
    except KeyboardInterrupt:
        failures["not all rows"] = "the run was interrupted"
    return medians, failures


def _measure(
    rows: list[Row],
    names: list[str],
    bench: Bench,
    rounds: int | None,
    progress: Progress,
    medians: Medians,
    failures: dict[str, str],
) -> None:
    planned = {row.name: (rounds or row.rounds) + row.warm_up for row in rows}
    task = progress.add_task("starting", total=sum(planned.values()) * len(names))
    for setup, group in groupby(rows, key=lambda row: row.on):
        with ExitStack() as stack:
            peers = [stack.enter_context(setup(PEERS[name])) for name in names]
            for row in group:
                taken: dict[str, list[Measurement]] = {name: [] for name in names}
                for number in range(planned[row.name]):
                    for peer in peers if number % 2 == 0 else peers[::-1]:
                        warming = row.warm_up and number == 0
                        progress.update(task, description=f"{row.name} on {peer.name}{', warm-up' if warming else ''}")
                        try:
                            measured = row.measure(bench, peer)
                        except (PeerError, KafkaException, subprocess.SubprocessError) as error:
                            failures[f"{row.name} on {peer.name}"] = str(error)
                        else:
                            taken[peer.name] += [] if warming else [measured]
                        progress.advance(task)
                medians[row.name] = {name: median(rounds_) for name, rounds_ in taken.items() if rounds_}


def figure(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def verdict(row: Row, found: dict[str, Measurement]) -> bool | None:
    """Whether every target is met; None when the row has none or a side is missing."""
    needed = {"penstock", *("kafka" for target in row.targets if target.relative)}
    if not row.targets or not needed <= set(found):
        return None
    ours, theirs = found["penstock"], found.get("kafka", Measurement(math.nan))
    return all(target.meets(ours.metric(target.metric), theirs.metric(target.metric)) for target in row.targets)


def cpu_column(found: dict[str, Measurement]) -> str:
    costs = [found[name].more.get("cpu_s_per_million") for name in PEERS if name in found]
    return " → ".join(figure(cost) for cost in costs if cost is not None)


def table_of(rows: list[Row], medians: Medians, other: str, measured: str) -> Table:
    """What is measured, mostly Penstock, beside the other broker: Kafka, Penstock before a change, or one Penstock."""
    titles = {"kafka": f"Apache Kafka {KAFKA_VERSION}", "before": "an earlier Penstock", "penstock": "one Penstock"}
    title = "Penstock" if measured == "penstock" else "Several Penstocks on one machine"
    table = Table(title=f"{title} beside {titles[other]}", title_justify="left")
    ours_heading = "Penstock" if measured == "penstock" else NAMES[measured]
    for heading in ("row", "unit", NAMES[other], ours_heading, "ratio", "broker CPU s per million", "target", ""):
        table.add_column(heading, justify="left" if heading in ("row", "unit", "target", "") else "right")
    for row in rows:
        found = medians.get(row.name, {})
        ours, theirs = found.get(measured), found.get(other)
        ratio = f"{ours.value / theirs.value:.2f}×" if ours and theirs and theirs.value else "-"
        met = verdict(row, found) if measured == "penstock" else None
        mark = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: ""}[met]
        values = [figure(side.value) if side else "-" for side in (theirs, ours)]
        target = ", ".join(str(target) for target in row.targets)
        table.add_row(row.title, row.unit, *values, ratio, cpu_column(found), target, mark)
    return table


def as_json(rows: list[Row], medians: Medians, failures: dict[str, str], bench: Bench) -> dict[str, object]:
    return {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "kafka": KAFKA_VERSION,
        "scale": bench.scale,
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "unit": row.unit,
                "targets": [asdict(target) for target in row.targets],
                "met": verdict(row, medians.get(row.name, {})),
                **{name: {"value": m.value, **m.more} for name, m in medians.get(row.name, {}).items()},
            }
            for row in rows
        ],
        "failures": failures,
    }


def chosen_rows(families: tuple[str, ...], names: tuple[str, ...]) -> list[Row]:
    known = {row.name: row for family in FAMILIES.values() for row in family}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"no row named {', '.join(unknown)}; there are: {', '.join(known)}")
    if names:
        return [known[name] for name in names]
    return [row for family in families or FAMILIES for row in FAMILIES[family]]


@click.command()
@click.option("--rows", "-r", multiple=True, metavar="NAME", help="Only this row (may be given several times).")
@click.option("--family", "-f", multiple=True, type=click.Choice(list(FAMILIES)), help="Only the rows of this family.")
@click.option("--only", type=click.Choice(["kafka", "penstock"]), help="Only this broker, without ratios.")
@click.option(
    "--before",
    metavar="COMMAND",
    type=click.Path(exists=True, dir_okay=False),
    help="Measure beside this earlier penstock command (of another checkout) instead of beside Kafka.",
)
@click.option("--brokers", type=click.IntRange(2), metavar="N", help="Measure N brokers beside one, both Penstock.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Rounds of each row, in place of its own number.")
@click.option("--quick", is_flag=True, help="A tenth of the data and one round: a look, not a verdict.")
@click.option("--json", "print_json", is_flag=True, help="Print the JSON instead of the table.")
def main(
    rows: tuple[str, ...],
    family: tuple[str, ...],
    only: str | None,
    before: str | None,
    brokers: int | None,
    rounds: int | None,
    quick: bool,
    print_json: bool,
) -> None:
    """Measure Penstock beside Apache Kafka: same load, same client, same machine."""
    other, measured = "before" if before else "kafka", "penstock"
    if brokers is not None:
        other, measured = "penstock", "several"
        os.environ["PENSTOCK_SEVERAL"] = str(brokers)
    if before:
        os.environ["PENSTOCK_BEFORE"] = str(Path(before).absolute())
    chosen = chosen_rows(family, rows)
    bench = Bench(scale=0.1 if quick else 1.0)
    names = [only] if only else [other, measured]
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        build_load()
        with Progress(*columns, console=screen, transient=True) as progress:
            medians, failures = measure_rows(chosen, names, bench, 1 if quick else rounds, progress)
    except PeerError as error:
        raise click.ClickException(str(error)) from error
    result = as_json(chosen, medians, failures, bench)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    if print_json:
        print(json.dumps(result, indent=1))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table_of(chosen, medians, other, measured))
        screen.print(f"written to {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
    for label, why in failures.items():
        screen.print(f"[red]{label}[/]: {why}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
