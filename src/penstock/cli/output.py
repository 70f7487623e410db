"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence

import click

Cell = str | int | None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str | None = None) -> None:
    """Rows under column names: drawn on a terminal, aligned plain text elsewhere."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, rows, cells, title)
        return
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    for row in [list(columns), *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fits(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether a table can be printed without folding cells: always, but on a terminal that is too narrow."""
    widths = [max(len(str(cell or "")) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    return not sys.stdout.isatty() or sum(widths) + 3 * len(widths) <= shutil.get_terminal_size().columns


def _draw(columns: Sequence[str], rows: Sequence[Sequence[Cell]], cells: list[list[str]], title: str | None) -> None:
    # Imported here: it takes as long as everything else together, and pipes do not need it.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    Console(highlight=False).print(table)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def note(text: str) -> None:
    """Something for the user, not for the pipe."""
    click.echo(text, err=True)


def count(number: int, noun: str) -> str:
    """The number with its noun: 1 topic, 1,200 topics."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
