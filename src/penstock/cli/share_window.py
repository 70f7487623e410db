"""`penstock share inspect`: the window of a share-partition as a picture.

The broker shows its windows as JSON beside its metrics (see `penstock.cli.monitoring`).
"""

from __future__ import annotations

from collections import Counter
from typing import TypedDict, cast

import click

from penstock.cli.monitoring import read_view
from penstock.cli.output import Cell, print_table

_ROW = 100
_DETAILS = 20

# state -> how its records are drawn, and in which colour
_LOOKS = {
    "AVAILABLE": (".", "white"),
    "ACQUIRED": ("#", "yellow"),
    "ACKNOWLEDGED": ("+", "green"),
    "ARCHIVED": ("x", "red"),
    "ARCHIVING": ("!", "red"),
    "STAGED": ("~", "cyan"),
    "DELAYED": ("z", "blue"),
}


class RecordRow(TypedDict):
    offset: int
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
    records: list[RecordRow]


def read_windows(address: str, group: str) -> list[WindowView]:
    return cast("list[WindowView]", read_view(address, "/share-groups", group=group))


def draw(window: WindowView) -> None:
    records = window["records"]
    span = window["endOffset"] - window["startOffset"]
    click.echo(
        f"{window['topic']}-{window['partition']}  start {window['startOffset']}  in flight {span} of "
        f"{window['maxRecordLocks']}  log end {window['logEndOffset']}  waiting fetches {window['waitingFetches']}"
    )
    counts = Counter(record["state"] for record in records)
    legend = [
        click.style(f"{look} {state.lower()} {counts[state]}", fg=colour)
        for state, (look, colour) in _LOOKS.items()
        if counts[state]
    ]
    if legend:
        click.echo("  " + "   ".join(legend))
    for begin in range(0, len(records), _ROW):
        row = records[begin : begin + _ROW]
        click.echo(f"{row[0]['offset']:>12} " + "".join(_cell(record) for record in row))
    _details(window)
    click.echo()


def _cell(record: RecordRow) -> str:
    look, colour = _LOOKS[record["state"]]
    if record["state"] in ("ACQUIRED", "AVAILABLE", "DELAYED") and record["deliveryCount"] > 1:
        look = f"{min(record['deliveryCount'], 9)}"  # so that records that fail again and again stand out
    return click.style(look, fg=colour)


def _details(window: WindowView) -> None:
    """Who holds what for how long: runs of records that are alike."""
    rows: list[list[Cell]] = []
    runs: list[list[RecordRow]] = []
    for record in window["records"]:
        if record["state"] in ("ACKNOWLEDGED", "ARCHIVED"):
            continue
        last = runs[-1][-1] if runs else None
        if last is not None and last["offset"] + 1 == record["offset"] and _alike(last, record):
            runs[-1].append(record)
        else:
            runs.append([record])
    for run in runs[:_DETAILS]:
        first = run[0]
        offsets = str(first["offset"]) if len(run) == 1 else f"{first['offset']}-{run[-1]['offset']}"
        left = f"{first['remainingMs'] / 1000:.1f}" if first["remainingMs"] else "-"
        deliveries = f"{first['deliveryCount']}/{window['deliveryCountLimit']}"
        rows.append([offsets, first["state"].title(), first["memberId"] or "-", left, deliveries])
    if rows:
        print_table(["OFFSETS", "STATE", "HOLDER", "SECONDS-LEFT", "DELIVERIES"], rows)
    if len(runs) > _DETAILS:
        click.echo(f"... and {len(runs) - _DETAILS} more (--json shows all)")


def _alike(left: RecordRow, right: RecordRow) -> bool:
    return (left["state"], left["deliveryCount"], left["memberId"], left["remainingMs"] // 1000) == (
        right["state"],
        right["deliveryCount"],
        right["memberId"],
        right["remainingMs"] // 1000,
    )
