"""A broker, a stream, a queue, a transactional transformation, and a lake, each checked: `python -m examples.demo`.

Everything is done with real clients and processes, and every count is verified against what was produced. The part on
Spark is left out when it is not installed, or with `--without-spark`. `--keep FOLDER` leaves the data there to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from examples.demo import lake, queue, stream, transform
from examples.demo.stage import Results, console, running_broker


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--without-spark", action="store_true", help="leave out the part on Spark")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the broker's data and the tables there")
    options = parser.parse_args()
    if options.keep is not None:
        tell(options.keep, not options.without_spark)
    else:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            tell(Path(folder), not options.without_spark)


def tell(folder: Path, with_spark: bool) -> None:
    results = Results()
    started = time.perf_counter()
    with running_broker(folder / "broker") as (address, ready):
        console.print(f"A broker serves on [bold]{address}[/], ready after {ready * 1000:.0f} ms.")
        console.print("\n[bold]A stream[/], through confluent-kafka: any Kafka client can talk to it.")
        stream.run(address, results)
        console.print("\n[bold]A queue[/]: a share group hands each job to one worker, again when it fails.")
        asyncio.run(queue.run(address, results))
        console.print("\n[bold]A transformation[/]: output and input offsets are committed together, or not at all.")
        asyncio.run(transform.run(address, results))
        if with_spark and lake.is_there():
            console.print("\n[bold]A lake[/]: topics into Delta tables with Spark, data and offsets in one commit.")
            lake.run(address, folder / "lake", results)
        elif with_spark:
            console.print("\nThe part on Spark is left out: pip install 'penstock\\[spark]' brings it.")
    on_disk = sum(path.stat().st_size for path in (folder / "broker").rglob("*.log"))
    console.print()
    results.show()
    console.print(
        f"{on_disk / 1e6:,.0f} MB of segment files in Kafka's own format; {time.perf_counter() - started:.0f} s in all."
    )
    console.print(
        "Your turn: [bold].venv/bin/penstock[/] serves on 127.0.0.1:9092; the README goes on from there. "
        "[bold]penstock share inspect[/] draws a queue, [bold]penstock load[/] fills a table."
    )


if __name__ == "__main__":
    main()
