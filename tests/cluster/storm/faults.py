"""The faults of a storm, by name. Each one strikes, lasts, heals, and returns what shows that it happened."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.storm.proxy import Mode, Proxy
from tests.cluster.storm.stage import DISK_BYTES, BrokerDied, Node, Stage

_HIT_SECONDS = 40.0
"""How long a fault lasts at the most until it has hit something."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    node: int
    chance: int

    def __str__(self) -> str:
        return f"{self.kind} at broker-{self.node + 1}"


@dataclass(slots=True)
class Strike:
    """What a fault needs to know."""

    stage: Stage
    node: Node
    chance: random.Random
    scale: float
    """How long faults last, as a part of the full length."""

    async def last(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self.scale)


Carry = Callable[[Strike], Awaitable[str]]
KINDS: dict[str, Carry] = {}
NEED_SEVERAL = {"part-brokers", "drain"}
"""Faults that one broker alone cannot have."""


def kind(name: str) -> Callable[[Carry], Carry]:
    def register(carry: Carry) -> Carry:
        KINDS[name] = carry
        return carry

    return register


def plan_of(seed: int, count: int, brokers: int, kinds: list[str] | None = None) -> list[Fault]:
    """As many of each kind as possible, in an order that the seed decides."""
    chance = random.Random(seed)
    names = kinds or [each for each in KINDS if brokers > 1 or each not in NEED_SEVERAL]
    chosen: list[str] = []
    while len(chosen) < count:
        some = list(names)
        chance.shuffle(some)
        chosen += some
    return [Fault(each, chance.randrange(brokers), chance.randrange(1 << 30)) for each in chosen[:count]]


async def _until(condition: Callable[[], object]) -> None:
    """Wait until there is something to strike at, for a while: a broker that has just started leads nothing yet."""
    deadline = time.monotonic() + _HIT_SECONDS
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


async def _until_hit(proxies: list[Proxy], mode: Mode, before: int, seconds: float) -> int:
    """Wait `seconds`, and longer if the fault has not hit anything yet. Returns how often it did."""
    started = time.monotonic()
    while True:
        hits = sum(proxy.hits[mode.value] for proxy in proxies) - before
        passed = time.monotonic() - started
        if (hits and passed >= seconds) or passed >= seconds + _HIT_SECONDS:
            return hits
        await asyncio.sleep(0.1)


async def _troubled(proxies: list[Proxy], mode: Mode, seconds: float) -> int:
    before = sum(proxy.hits[mode.value] for proxy in proxies)
    for proxy in proxies:
        await proxy.set(mode)
    try:
        return await _until_hit(proxies, mode, before, seconds)
    finally:
        for proxy in proxies:
            await proxy.set(Mode.PASS)


async def _refused(strike: Strike, proxies: list[Proxy], seconds: float) -> str:
    """Connections are cut, and whoever connects anew is refused."""
    await _until(lambda: any(proxy.is_used for proxy in proxies))
    before = sum(proxy.hits[Mode.REFUSE.value] for proxy in proxies)
    for proxy in proxies:
        await proxy.set(Mode.REFUSE)
    cut = sum(proxy.hits[Mode.REFUSE.value] for proxy in proxies) - before
    await strike.last(seconds)
    refused = all([await proxy.refuses() for proxy in proxies])
    for proxy in proxies:
        await proxy.set(Mode.PASS)
    return f"{cut} connections cut, others refused" if cut and refused else ""


# -- processes -----------------------------------------------------------------------------------------------------


@kind("kill")
async def kill(strike: Strike) -> str:
    status = await strike.node.end(signal.SIGKILL)
    await strike.last(strike.chance.uniform(0, 8))
    await strike.node.start()
    return f"exit status {status}" if status == -signal.SIGKILL else ""


@kind("kill-and-wipe")
async def kill_and_wipe(strike: Strike) -> str:
    status = await strike.node.end(signal.SIGKILL)
    removed = wipe(strike.node.data)
    await strike.node.start()
    return f"exit status {status}, {removed} files removed" if status == -signal.SIGKILL and removed else ""


@kind("terminate")
async def terminate(strike: Strike) -> str:
    status = await strike.node.end(signal.SIGTERM)
    await strike.last(strike.chance.uniform(0, 3))
    await strike.node.start()
    return f"exit status {status}" if status == 0 else ""


@kind("drain")
async def drain(strike: Strike) -> str:
    """An administrator has it hand over and stop."""
    status = await strike.node.drain()
    await strike.last(strike.chance.uniform(0, 3))
    await strike.node.start()
    return f"drained, exit status {status}" if status == 0 else ""


async def _stopped(strike: Strike, seconds: float) -> str:
    state = strike.node.pause()
    started = time.monotonic()
    try:
        await asyncio.sleep(seconds)
    finally:
        strike.node.resume()
    return f"state {state} for {time.monotonic() - started:.1f} s" if state == "stopped" else ""


@kind("stop-short")
async def stop_short(strike: Strike) -> str:
    lease = int(str(strike.stage.configs.get("broker.session.timeout.ms", 9000))) / 1000
    return await _stopped(strike, strike.chance.uniform(0.2, 0.6) * lease)


@kind("stop-long")
async def stop_long(strike: Strike) -> str:
    lease = int(str(strike.stage.configs.get("broker.session.timeout.ms", 9000))) / 1000
    return await _stopped(strike, max(lease + 3, 20 * strike.scale))


# -- networks ------------------------------------------------------------------------------------------------------


@kind("part-postgres")
async def part_postgres(strike: Strike) -> str:
    mode = strike.chance.choice([Mode.REFUSE, Mode.SWALLOW])
    if mode is Mode.REFUSE:
        return await _refused(strike, [strike.node.postgres], strike.chance.uniform(4, 15))
    hits = await _troubled([strike.node.postgres], mode, strike.chance.uniform(4, 15) * strike.scale)
    return f"{hits} pieces swallowed" if hits else ""


@kind("part-store")
async def part_store(strike: Strike) -> str:
    hits = await _troubled([strike.node.store], Mode.SWALLOW, strike.chance.uniform(4, 15) * strike.scale)
    return f"{hits} pieces swallowed" if hits else ""


@kind("part-brokers")
async def part_brokers(strike: Strike) -> str:
    """One broker and the others do not reach each other, in both directions."""
    mode = strike.chance.choice([Mode.REFUSE, Mode.SWALLOW])
    others = [node for node in strike.stage.nodes if node is not strike.node]
    before = sum(node.peers.hits[mode.value] for node in strike.stage.nodes)
    for other in others:
        strike.node.peers.part(other.name, mode)
        other.peers.part(strike.node.name, mode)
    try:
        proxies = [node.peers for node in strike.stage.nodes]
        hits = await _until_hit(proxies, mode, before, strike.chance.uniform(4, 15) * strike.scale)
    finally:
        for other in others:
            strike.node.peers.part(other.name, None)
            other.peers.part(strike.node.name, None)
    return f"{hits} times {mode.value}" if hits else ""


@kind("cut-clients")
async def cut_clients(strike: Strike) -> str:
    if strike.chance.random() < 0.5:
        await _until(lambda: strike.node.clients.is_used)
        cut = strike.node.clients.cut()
        return f"{cut} connections cut" if cut else ""
    hits = await _troubled([strike.node.clients], Mode.SWALLOW, strike.chance.uniform(1, 8) * strike.scale)
    return f"{hits} pieces swallowed" if hits else ""


# -- PostgreSQL ----------------------------------------------------------------------------------------------------


async def _restarted(strike: Strike, mode: str, seconds: float) -> str:
    before = strike.stage.ask_postgres("SELECT pg_postmaster_start_time()")
    await asyncio.to_thread(strike.stage.postgres.stop, mode)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(strike.stage.postgres.start)
    after = strike.stage.ask_postgres("SELECT pg_postmaster_start_time()")
    return f"started anew at {after[0][0]}" if before != after else ""


@kind("postgres-restart")
async def postgres_restart(strike: Strike) -> str:
    return await _restarted(strike, "fast", 0)


@kind("postgres-kill")
async def postgres_kill(strike: Strike) -> str:
    """Without a checkpoint: it recovers from its log when it starts."""
    return await _restarted(strike, "immediate", strike.chance.uniform(0, 4) * strike.scale)


@kind("postgres-slow")
async def postgres_slow(strike: Strike) -> str:
    proxies = [node.postgres for node in strike.stage.nodes]
    for proxy in proxies:
        proxy.delay_seconds = strike.chance.uniform(0.02, 0.3)
    hits = await _troubled(proxies, Mode.SLOW, strike.chance.uniform(4, 12) * strike.scale)
    return f"{hits} pieces delayed" if hits else ""


@kind("cut-commits")
async def cut_commits(strike: Strike) -> str:
    hits = await _troubled([strike.node.postgres], Mode.CUT_COMMITS, strike.chance.uniform(1, 4) * strike.scale)
    return f"{hits} connections cut during COMMIT" if hits else ""


# -- the store -----------------------------------------------------------------------------------------------------


@kind("store-away")
async def store_away(strike: Strike) -> str:
    return await _refused(strike, [node.store for node in strike.stage.nodes], 30)


@kind("store-slow")
async def store_slow(strike: Strike) -> str:
    proxies = [node.store for node in strike.stage.nodes]
    for proxy in proxies:
        proxy.delay_seconds = strike.chance.uniform(0.05, 0.5)
    hits = await _troubled(proxies, Mode.SLOW, strike.chance.uniform(4, 12) * strike.scale)
    return f"{hits} pieces delayed" if hits else ""


@kind("store-503")
async def store_503(strike: Strike) -> str:
    proxies = [node.store for node in strike.stage.nodes]
    hits = await _troubled(proxies, Mode.UNAVAILABLE, strike.chance.uniform(3, 10) * strike.scale)
    return f"{hits} requests answered with 503" if hits else ""


@kind("stored-unanswered")
async def stored_unanswered(strike: Strike) -> str:
    proxies = [node.store for node in strike.stage.nodes]
    hits = await _troubled(proxies, Mode.DROP_ANSWERS_TO_PUTS, strike.chance.uniform(2, 6) * strike.scale)
    return f"{hits} objects stored without an answer" if hits else ""


# -- the disk of the cache -----------------------------------------------------------------------------------------


@kind("disk-full")
async def disk_full(strike: Strike) -> str:
    """A disk of its own where this user may mount one; else a limit on the size of files, which acts alike."""
    if strike.node.has_disk:
        ballast = strike.node.data / "ballast"
        code = await asyncio.to_thread(_fill, ballast)
        await strike.last(strike.chance.uniform(3, 10))
        ballast.unlink(missing_ok=True)
        return "no space left on the disk" if code == errno.ENOSPC else ""
    import resource

    assert strike.node.process is not None
    pid = strike.node.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    soft = resource.prlimit(pid, resource.RLIMIT_FSIZE)[0]
    await strike.last(strike.chance.uniform(3, 10))
    if strike.node.is_up:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "files limited to 4096 bytes" if soft == 4096 else ""


def _fill(ballast: Path) -> int:
    """Returns the error that ends it: never more than the small disk can hold, wherever this is."""
    code = 0
    with open(ballast, "wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                for _ in range(DISK_BYTES // (1 << 16) + 1 if size > 1 else 1 << 16):
                    file.write(bytes(size))
            except OSError as error:
                code = error.errno or 0
    return code


@kind("disk-wiped")
async def disk_wiped(strike: Strike) -> str:
    """The cache is deleted under a broker that runs. It ends when it needs a new file there, and is started again."""
    await _until(lambda: any(each.is_file() for each in (strike.node.data / "cache").rglob("*")))
    removed = wipe(strike.node.data / "cache")
    deadline = time.monotonic() + 20 * strike.scale
    while strike.node.is_up and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    if strike.node.is_up:
        await strike.node.end(signal.SIGTERM)
        ended = "was ended"
    else:
        ended = f"has ended by itself with status {strike.node.process.poll() if strike.node.process else None}"
    await strike.node.start()
    return f"{removed} files removed, the broker {ended}" if removed else ""


def wipe(folder: Path) -> int:
    """Delete what is in a folder; returns how many files there were."""
    removed = 0
    for each in list(folder.iterdir()) if folder.is_dir() else []:
        if each.is_dir():
            removed += sum(1 for found in each.rglob("*") if found.is_file())
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
            removed += 1
    return removed


async def carry_out(fault: Fault, stage: Stage, scale: float) -> str:
    """Returns the evidence; it is empty if there is none."""
    strike = Strike(stage, stage.nodes[fault.node], random.Random(fault.chance), scale)
    evidence = await KINDS[fault.kind](strike)
    for node in stage.nodes:
        if node.process is not None and node.process.poll() is not None:
            status = node.process.poll()
            said = node.output.read_bytes()[-1500:].decode(errors="replace")
            raise BrokerDied(f"{node.name} has ended by itself with status {status} during {fault}: {said}")
    return evidence
