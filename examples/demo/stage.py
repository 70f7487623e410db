"""What the steps of the demo share: a broker process, a place to print, and a clock."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

WAIT_SECONDS = 60

console = Console(highlight=False)


@contextmanager
def running_broker(folder: Path) -> Iterator[tuple[str, float]]:
    """`penstock serve` as a process of its own; gives its address and the seconds it took to be ready."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    command = [penstock, "serve", "--data", str(folder), "--listen", "127.0.0.1:0"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = time.perf_counter() - started
        address = re.search(r"[\w.]+:\d+", line)
        if address is None:
            raise SystemExit(f"the broker did not start: {line or 'no output'}")
        yield address.group(), ready
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


@dataclass
class Results:
    """One line per step, and the table of them at the end."""

    lines: list[tuple[str, int | None, float, str]] = field(default_factory=list)

    def add(self, step: str, records: int | None, seconds: float, found: str) -> None:
        self.lines.append((step, records, seconds, found))
        console.print(f"  [green]✓[/] {step}: {found} [dim]({seconds:.1f} s)[/]")

    def show(self) -> None:
        table = Table("step", "records", "seconds", "records/s", "checked", title="What was done, and checked")
        for step, records, seconds, found in self.lines:
            number, rate = ("", "") if records is None else (f"{records:,}", f"{records / seconds:,.0f}")
            table.add_row(step, number, f"{seconds:.2f}", rate, found)
        for column in table.columns[1:4]:
            column.justify = "right"
        console.print(table)


def check(is_right: bool, what: str) -> None:
    if not is_right:
        raise SystemExit(f"the demo found something wrong: {what}")
