"""`penstock check`: judge a recorded history of what clients did and saw."""

from __future__ import annotations

import sys
from collections import Counter
from typing import BinaryIO

import click

from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option
from penstock.cli.output import Cell, note, print_json, print_table

_SHOWN = 20
_FOUND = 1


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("history", type=click.File("rb"), metavar="HISTORY")
@json_option
def check(history: BinaryIO, as_json: bool) -> None:
    """Find lost, duplicated, reordered and aborted records in a recorded history.

    HISTORY is a file of JSON lines, or - for standard input: what producers, consumers and workers did and saw, each
    line one operation (docs/reference/checks.md describes them). It may come from any Kafka cluster. The exit status
    is 1 if the history shows an anomaly.

    Examples:

    \b
      penstock check history.jsonl
      penstock check --json - < history.jsonl
    """
    from penstock.checks import HistoryError, check, read_history

    try:
        findings = check(read_history(history))
    except HistoryError as error:
        raise Failure(f"{history.name} is not a history: {error}.") from error
    if as_json:
        print_json([finding._asdict() for finding in findings])
    elif findings:
        rows: list[list[Cell]] = [[each.check, each.line, each.text] for each in findings[:_SHOWN]]
        print_table(["CHECK", "LINE", "WHAT"], rows)
        counted = ", ".join(f"{name} {number}" for name, number in sorted(Counter(f.check for f in findings).items()))
        more = f", of which the first {_SHOWN} are shown" if len(findings) > _SHOWN else ""
        note(f"The history shows what it should not: {counted}{more}.")
    else:
        note("Every check passed.")
    sys.stdout.flush()
    if findings:
        raise click.exceptions.Exit(_FOUND)
