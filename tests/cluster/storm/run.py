"""A storm: brokers over PostgreSQL and an object store under load, faults that a seed decides, and a judgement.

`python -m tests.cluster.storm --seed 7 --faults 200` runs one and prints a line for each fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.storm import maintained, spark
from tests.cluster.storm.faults import Fault, carry_out, plan_of
from tests.cluster.storm.history import History, Wire, now_ms
from tests.cluster.storm.load import LOCK_MS, QUEUE, Load
from tests.cluster.storm.stage import STORE, BrokerDied, Stage

CONFIGS: dict[str, object] = {
    "broker.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 45000,
    "penstock.store.orphan.age.ms": 15_000,
    "penstock.store.delete.delay.ms": 5_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
    "share.coordinator.state.topic.num.partitions": 6,
    **maintained.BROKER_CONFIGS,
}
_WORK_PER_FAULT = 3
"""How often everything has to have been done, per fault, for a storm to prove anything."""
_BETWEEN_SECONDS = (0.5, 2.0)


@dataclass(slots=True)
class Result:
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    """How many of each kind are shown to have happened."""
    unproven: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    """How many records of which topics were compacted away or deleted."""
    summary: str = ""


async def storm(
    folder: Path,
    seed: int,
    count: int,
    brokers: int,
    *,
    scale: float = 1.0,
    kinds: list[str] | None = None,
    patience_seconds: float = 180.0,
    tell: bool = False,
    with_spark: bool = False,
    configs: Mapping[str, object] | None = None,
) -> Result:
    result = Result(seed)
    history = History()
    async with Stage(folder, brokers, {**CONFIGS, **(configs or {})}) as stage:
        nodes = {node.clients.port: node.number for node in stage.nodes}
        with Wire(history, nodes).watched():
            load = Load(stage.bootstrap, history, seed, folder if with_spark else None)
            await load.prepare(min(brokers, 3))
            load.start()
            await asyncio.sleep(3 * scale)
            await _blow(stage, plan_of(seed, count, brokers, kinds), scale, result, load if tell else None)
            began = time.monotonic()
            result.wrong += await load.finish(patience_seconds)
            result.wrong += load.too_little(count * _WORK_PER_FAULT)
            result.removed = load.maintained.removed
            quiet = time.monotonic() - began
        clock_ms = now_ms() - int(time.time() * 1000)
        windows = [each for node in stage.nodes for each in node.windows(QUEUE, clock_ms)]
        # In a thread: the proxies between the brokers and their servers are in this event loop.
        findings = await asyncio.to_thread(history.judge, stage.leaders(history.topics, clock_ms), windows, LOCK_MS)
        result.wrong += [str(finding) for finding in findings]
        history.write(folder / "history.jsonl")
        result.wrong += await judged_store(stage, patience_seconds)
    result.summary = (
        f"seed {seed}: {sum(result.faults.values())} faults, {dict(history.counts)} operations, acknowledged "
        f"{dict(load.acknowledged)}, removed {dict(result.removed)}, overlaps {dict(history.overlaps)}, at rest after "
        f"{quiet:.0f} s, clients made anew {dict(load.restarts)}"
    )
    return result


async def _blow(stage: Stage, plan: list[Fault], scale: float, result: Result, told: Load | None) -> None:
    chance = random.Random(f"pauses of {result.seed}")
    for number, fault in enumerate(plan, 1):
        evidence = ""
        started = time.monotonic()
        try:
            evidence = await carry_out(fault, stage, scale)
        except BrokerDied as error:
            result.wrong.append(str(error))
            await _revive(stage)
        if evidence:
            result.faults[fault.kind] += 1
        else:
            result.unproven.append(str(fault))
        if told is not None:
            lasted = time.monotonic() - started
            sent = sum(told.acknowledged.values())
            print(
                f"{number}/{len(plan)} {fault}: {evidence or 'NOT SHOWN'} ({lasted:.1f} s; {sent} acknowledged)",
                flush=True,
            )
        await asyncio.sleep(chance.uniform(*_BETWEEN_SECONDS) * scale)


async def _revive(stage: Stage) -> None:
    for node in stage.nodes:
        if not node.is_up:
            node.process = None
            await node.start()


async def judged_store(stage: Stage, patience_seconds: float) -> list[str]:
    """What `penstock cluster check` finds, once the sweep has had the time to remove what nothing names."""
    deadline = time.monotonic() + patience_seconds
    while True:
        found = await asyncio.to_thread(_cluster_check, stage)
        if found["findings"] or time.monotonic() > deadline:
            break
        if not found["young"] and not found["marked"]:
            return []
        await asyncio.sleep(2)
    return [
        f"penstock cluster check: {found['young']} objects that nothing names, {found['marked']} marked ones, "
        f"{json.dumps(found['findings'])[:2000]}"
    ]


def _cluster_check(stage: Stage) -> dict[str, Any]:
    done = stage.administer("check", "--json", "--store", STORE)
    if not done.stdout:
        return {"findings": [done.stderr[-1000:]], "young": 0, "marked": 0}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--spark", action="store_true", help="have Spark copy the stream as well")
    options = parser.parse_args()
    if options.spark and not spark.is_installed():
        parser.error("this environment has no Spark; `make spark` installs it")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    kinds = options.kinds.split(",") if options.kinds else None
    size = (options.seed, options.faults, options.brokers)
    running = storm(folder, *size, scale=options.scale, kinds=kinds, tell=True, with_spark=options.spark)
    began = time.monotonic()
    result = asyncio.run(running)
    print(f"{time.monotonic() - began:.0f} s")
    print(result.summary)
    print("faults:", dict(sorted(result.faults.items())))
    for each in result.unproven:
        print("not shown to have happened:", each)
    for each in result.wrong[:50]:
        print("WRONG:", each)
    print(f"{len(result.wrong)} findings; history and logs in {folder}")
    sys.exit(bool(result.wrong or result.unproven))
