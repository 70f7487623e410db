"""Repeats an output at an interval, as `watch` does."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from penstock.cli.options import option

watch_option = option(
    "--watch",
    type=click.FloatRange(0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="SECONDS",
    help="Repeat the output at this interval (2 if no number is given), until Ctrl-C.",
)


def again_and_again(show: Callable[[], None], seconds: float | None) -> None:
    """Once, or with --watch on a cleared screen until Ctrl-C."""
    if seconds is None:
        show()
        return
    while True:
        click.clear()
        show()
        time.sleep(seconds)
