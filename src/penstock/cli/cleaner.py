"""`penstock cleaner`: whether compaction works, and how much of each log it still has to clean."""

from __future__ import annotations

import time
from typing import TypedDict, cast

import click

from penstock.cli.monitoring import address_or_failure, read_view
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option
from penstock.cli.output import print_json, print_table
from penstock.cli.running import with_admin
from penstock.cli.watching import again_and_again, watch_option

_COLUMNS = ["TOPIC", "PARTITION", "DIRTY-BYTES", "CLEAN-BYTES", "DIRTY", "LAST-CLEANED", "STATE"]


class LogView(TypedDict):
    topic: str
    partition: int
    cleanBytes: int
    dirtyBytes: int
    dirtyRatio: float
    lastSuccessMs: int | None
    lastError: str | None
    uncleanable: bool
    inProgress: bool


class CleanerView(TypedDict):
    enabled: bool
    running: str | None
    rounds: int
    failures: int
    lastLookMs: int | None
    lastSuccessMs: int | None
    lastError: str | None
    bytesRead: int
    bytesWritten: int
    logs: list[LogView]


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@option(
    "--monitoring", metavar="HOST:PORT", help="The broker's penstock.metrics.listen.  [default: read from the broker]"
)
@option("--all", "all_", is_flag=True, help="Also show logs that have nothing to clean.")
@watch_option
@bootstrap_option
@json_option
def cleaner(monitoring: str | None, all_: bool, watch: float | None, bootstrap: str, as_json: bool) -> None:
    """Show when the log cleaner last worked, and how dirty the compacted logs are.

    Logs that were never cleaned and have nothing to clean are counted only; JSON has them all.
    """
    address = monitoring or with_admin(
        bootstrap, lambda admin: address_or_failure(admin, bootstrap, "the state of its log cleaner")
    )

    def show() -> None:
        view = cast(CleanerView, read_view(address, "/cleaner"))
        if as_json:
            print_json(view)
        else:
            _print(view, all_)

    again_and_again(show, watch)


def _print(view: CleanerView, all_: bool) -> None:
    if not view["enabled"]:
        click.echo("The cleaner is off (log.cleaner.enable=false): compacted topics grow without end.")
    click.echo(
        f"Last look {_ago(view['lastLookMs'])}, last success {_ago(view['lastSuccessMs'])}; "
        f"{view['rounds']} rounds, {view['failures']} failed; "
        + (f"cleaning {view['running']} now" if view["running"] else "idle")
    )
    if view["lastError"]:
        click.echo(f"Last error: {view['lastError']}")
    if not view["logs"]:
        click.echo("No topic is compacted.")
        return
    shown = [log for log in view["logs"] if all_ or _has_news(log)]
    if shown:
        print_table(_COLUMNS, [_row(log) for log in shown])
    hidden = len(view["logs"]) - len(shown)
    if hidden:
        more = "more " if shown else ""
        logs, have = ("log", "has") if hidden == 1 else ("logs", "have")
        click.echo(f"{hidden} {more}compacted {logs} {have} nothing to clean; --all lists them.")


def _has_news(log: LogView) -> bool:
    return bool(
        log["dirtyBytes"] or log["lastSuccessMs"] or log["lastError"] or log["inProgress"] or log["uncleanable"]
    )


def _row(log: LogView) -> list[str | int]:
    state = "cleaning" if log["inProgress"] else "UNCLEANABLE" if log["uncleanable"] else "idle"
    if log["lastError"]:
        state += f" ({log['lastError']})"
    return [
        log["topic"],
        log["partition"],
        log["dirtyBytes"],
        log["cleanBytes"],
        f"{log['dirtyRatio']:.0%}",
        _ago(log["lastSuccessMs"]),
        state,
    ]


def _ago(time_ms: int | None) -> str:
    if time_ms is None:
        return "never"
    return f"{max(0, time.time() - time_ms / 1000):.0f} s ago"
