"""`penstock share inspect`: the window of a share-partition as a picture.

The broker shows its windows as JSON beside its metrics (see `penstock.cli.monitoring`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import NotRequired, TypedDict, cast

import click

from penstock.cli.monitoring import read_view
from penstock.cli.output import Cell, print_table

_ROW = 100
_DETAILS = 20
_AT_ONCE = 20

# state -> how its records are drawn, and in which color
_LOOKS = {
    "AVAILABLE": (".", "white"),
    "ACQUIRED": ("#", "yellow"),
    "ACKNOWLEDGED": ("+", "green"),
    "ARCHIVED": ("x", "red"),
    "ARCHIVING": ("!", "red"),
    "STAGED": ("~", "cyan"),
    "DELAYED": ("z", "blue"),
}


class Records(TypedDict):
    """Neighbouring records that are alike."""

    offset: int
    count: int
    state: str
    deliveryCount: int
    memberId: str
    remainingMs: int


class WindowView(TypedDict):
    topic: str
    partition: int
    startOffset: int
    endOffset: int
    logEndOffset: int
    waitingFetches: int
    maxRecordLocks: int
    deliveryCountLimit: int
    records: NotRequired[list[Records]]


def read_windows(address: str, group: str) -> list[WindowView]:
    """The windows of a group, each with its records, of which the broker shows so many at once."""
    windows = _read(address, group)
    places = {(window["topic"], window["partition"]): number for number, window in enumerate(windows)}
    while missing := [window for window in windows if "records" not in window][:_AT_ONCE]:
        names = ";".join(f"{window['topic']}:{window['partition']}" for window in missing)
        found = [window for window in _read(address, group, records=names) if "records" in window]
        for window in found:
            windows[places[window["topic"], window["partition"]]] = window
        if not found:  # they have been dropped meanwhile
            return [window for window in windows if "records" in window]
    return windows


def _read(address: str, group: str, **query: str) -> list[WindowView]:
    return cast("list[WindowView]", read_view(address, "/share-groups", group=group, **query))


def draw(window: WindowView) -> None:
    runs = window.get("records", [])
    span = window["endOffset"] - window["startOffset"]
    click.echo(
        f"{window['topic']}-{window['partition']}  start {window['startOffset']}  in flight {span} of "
        f"{window['maxRecordLocks']}  log end {window['logEndOffset']}  waiting fetches {window['waitingFetches']}"
    )
    counts: Counter[str] = Counter()
    for run in runs:
        counts[run["state"]] += run["count"]
    legend = [
        click.style(f"{look} {state.lower()} {counts[state]}", fg=colour)
        for state, (look, colour) in _LOOKS.items()
        if counts[state]
    ]
    if legend:
        click.echo("  " + "   ".join(legend))
    cells = [cell for run in runs for cell in [_cell(run)] * run["count"]]
    for begin in range(0, len(cells), _ROW):
        click.echo(f"{window['startOffset'] + begin:>12} " + "".join(cells[begin : begin + _ROW]))
    _details(window)
    click.echo()


def _cell(run: Records) -> str:
    look, colour = _LOOKS[run["state"]]
    if run["state"] in ("ACQUIRED", "AVAILABLE", "DELAYED") and run["deliveryCount"] > 1:
        look = f"{min(run['deliveryCount'], 9)}"  # so that records that fail again and again stand out
    return click.style(look, fg=colour)


def _details(window: WindowView) -> None:
    """Who holds what for how long."""
    rows: list[list[Cell]] = []
    open_runs = [run for run in window.get("records", []) if run["state"] not in ("ACKNOWLEDGED", "ARCHIVED")]
    alike = [list(group) for _, group in groupby(open_runs, key=_looks())]
    for runs in alike[:_DETAILS]:
        first, last = runs[0], runs[-1]
        past = last["offset"] + last["count"]
        offsets = str(first["offset"]) if past == first["offset"] + 1 else f"{first['offset']}-{past - 1}"
        left = f"{first['remainingMs'] / 1000:.1f}" if first["remainingMs"] else "-"
        deliveries = f"{first['deliveryCount']}/{window['deliveryCountLimit']}"
        rows.append([offsets, first["state"].title(), first["memberId"] or "-", left, deliveries])
    if rows:
        print_table(["OFFSETS", "STATE", "HOLDER", "SECONDS-LEFT", "DELIVERIES"], rows)
    if len(alike) > _DETAILS:
        click.echo(f"... and {len(alike) - _DETAILS} more (--json shows all)")


def _looks() -> Callable[[Records], tuple[object, ...]]:
    """What neighbors have in common that are one row: their state, deliveries, holder and seconds left."""
    past, gaps = -1, 0

    def looks(run: Records) -> tuple[object, ...]:
        nonlocal past, gaps
        gaps += run["offset"] != past
        past = run["offset"] + run["count"]
        return (gaps, run["state"], run["deliveryCount"], run["memberId"], run["remainingMs"] // 1000)

    return looks
