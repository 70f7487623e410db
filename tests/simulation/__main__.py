"""`make simulate SEEDS=10000`: run every scenario with many seeds, on all cores, and print what was found.

python -m tests.simulation --seeds 1000 --scenario streams
python -m tests.simulation --first 5000 --seeds 1000          seeds that have not been tried yet
python -m tests.simulation --seed 65 --scenario streams       one seed, shrunk, with its story
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from tests.simulation.scenario import run, shrink
from tests.simulation.scenarios import SCENARIOS

_SEEDS_AT_A_TIME = 20
_HASH_SEED = "0"


def run_seeds(name: str, seeds: range) -> tuple[list[str], Counter[str]]:
    """The stories of the seeds that found something, and what happened in numbers."""
    stories, numbers = [], Counter[str]()
    for seed in seeds:
        outcome = run(SCENARIOS[name], seed)
        numbers.update({f"fault {kind}": count for kind, count in outcome.world.faults.items()})
        numbers.update(operations=len(outcome.history.operations), virtual_ms=outcome.world.now_ms)
        numbers.update({f"figure {what}": count for what, count in outcome.figures.items()})
        if outcome.findings:
            stories.append(shrink(SCENARIOS[name], outcome).story())
    return stories, numbers


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seed", type=int)
    options.add_argument("--scenario", choices=sorted(SCENARIOS))
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # The order of sets of strings depends on it.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    names = [chosen.scenario] if chosen.scenario else sorted(SCENARIOS)
    failed = False
    for name in names:
        if chosen.seed is not None:
            outcome = run(SCENARIOS[name], chosen.seed)
            print((shrink(SCENARIOS[name], outcome) if outcome.findings else outcome).story())
            failed |= bool(outcome.findings)
            continue
        failed |= _run_many(name, range(chosen.first, chosen.first + chosen.seeds), chosen.workers)
    return int(failed)


def _run_many(name: str, seeds: range, workers: int) -> bool:
    began, numbers, failing = time.perf_counter(), Counter[str](), 0
    parts = [seeds[first : first + _SEEDS_AT_A_TIME] for first in range(0, len(seeds), _SEEDS_AT_A_TIME)]
    with ProcessPoolExecutor(workers) as pool:
        for stories, part in pool.map(run_seeds, repeat(name), parts):
            numbers.update(part)
            failing += len(stories)
            for story in stories:
                print(story, flush=True)
    seconds = time.perf_counter() - began
    faults = ", ".join(f"{kind[6:]} {number}" for kind, number in sorted(numbers.items()) if kind.startswith("fault "))
    figures = ", ".join(f"{number} {what[7:]}" for what, number in numbers.items() if what.startswith("figure "))
    print(
        f"{name}: {len(seeds)} seeds in {seconds:.0f} s, {failing} with findings; {numbers['operations']} operations, "
        f"{numbers['virtual_ms'] / 3_600_000:.2f} simulated hours, {figures}; faults: {faults}",
        flush=True,
    )
    return failing > 0


if __name__ == "__main__":
    sys.exit(main())
