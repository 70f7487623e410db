"""Faults: a plan of them from a seed, and what carries it out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.broker.topics import TRANSACTIONS_TOPIC
from penstock.catalog.contract import CatalogError
from penstock.simulation import Process
from penstock.simulation.disk import DiskLog
from penstock.simulation.world import OneBroker, Program, SimulatedWorld
from penstock.storage.contract import StorageError

_SYNCS_MAX = 12
_STEPS_MAX = 12
_SYNCS_SECONDS = 2.0
_ENDED_SECONDS = 30.0

if TYPE_CHECKING:
    from penstock.simulation.files import FileDisk, Synced
    from penstock.simulation.machine import WholeMachine


class Crowd:
    """Programs that may be killed at any time, and are started again; that is what they are for."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.on_killed: Callable[[str], object] | None = None
        self.failures: list[str] = []
        """What ended programs that were not killed."""
        self._world = world
        self._running: dict[str, tuple[Program[None], Start]] = {}

    def start(self, name: str, program: Start) -> None:
        running = self._world.spawn(name, program, name)
        running.task.add_done_callback(lambda task: self._ended(name, task))
        self._running[name] = (running, program)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(f"{name} failed: {task.exception()!r}")

    def names(self) -> list[str]:
        return sorted(self._running)

    def process(self, name: str) -> Process:
        return self._running[name][0].process

    def restart(self, name: str) -> None:
        self.start(name, self._running[name][1])


Start = Callable[[str], Coroutine[object, object, None]]


class Fault(NamedTuple):
    at_ms: int
    kind: str
    for_ms: int
    size: int

    @property
    def cuts_power(self) -> bool:
        """Some end the machine, or the broker alone."""
        if self.kind in ("sync-fails", "crash-at-change"):
            return self.for_ms % 2 > 0
        return self.kind.startswith("power-cut")

    def __str__(self) -> str:
        return f"{self.kind} at {self.at_ms} ms for {self.for_ms} ms"


def plan_of(seed: int, kinds: Sequence[str], until_ms: int, most: int = 6) -> list[Fault]:
    """Some faults, in the order of their times. Their number and nature depend on the seed alone."""
    chance = random.Random(f"faults of {seed}")
    times = sorted(chance.randrange(20, until_ms) for _ in range(chance.randint(1, most)))
    return [
        Fault(at_ms, chance.choice(list(kinds)), chance.randint(10, 1500), chance.randint(-90_000, 90_000))
        for at_ms in times
    ]


class Stage(NamedTuple):
    """What faults happen to."""

    world: OneBroker
    crowd: Crowd
    on_crash: Callable[[str], object]
    """Hears that the broker is gone, and that it is back ("restart")."""

    @property
    def files(self) -> FileDisk:
        """The disk of a world that has files."""
        return cast("FileDisk", self.world.disk)


async def carry_out(stage: Stage, plan: Sequence[Fault]) -> None:
    """Let each fault happen at its time; they heal one after the other."""
    for fault in plan:
        await asyncio.sleep(max(0, fault.at_ms - stage.world.now_ms) / 1000)
        await KINDS[fault.kind](stage, fault)


async def _start(stage: Stage) -> None:
    """Again and again, until its disk lets it."""
    while True:
        try:
            await stage.world.start_broker()
            break
        except (OSError, StorageError, CatalogError):
            stage.files.is_full = stage.files.is_unreadable = False
            await asyncio.sleep(0.1)
    stage.on_crash("restart")


async def _kill(stage: Stage, fault: Fault) -> None:
    stage.world.kill_broker()
    stage.on_crash("kill")
    await asyncio.sleep(fault.for_ms / 1000)
    await _start(stage)


async def _power_cut(stage: Stage, fault: Fault) -> None:
    stage.world.cut_power()
    stage.on_crash("power-cut")
    await asyncio.sleep(fault.for_ms / 1000)
    await _start(stage)


async def _power_cut_stalled(stage: Stage, fault: Fault) -> None:
    """Cut the power when no sync has ended for a while: much is written, and little of it is on disk."""
    stage.world.fault("power-cut-stalled")
    stage.world.disk.is_stalled = True
    await asyncio.sleep(fault.for_ms / 1000)
    stage.world.cut_power()
    stage.world.disk.is_stalled = False
    stage.on_crash("power-cut")
    await asyncio.sleep(fault.for_ms / 1000)
    await _start(stage)


async def _power_cut_at_sync(stage: Stage, fault: Fault) -> None:
    """Cut the power between two syncs: what one log has on disk is what another may lack.

    Every second time it is one of a log in which transactions are decided and completed.
    """
    left, topic = 1 + fault.size % _SYNCS_MAX, (None, TRANSACTIONS_TOPIC)[fault.for_ms % 2]
    reached = stage.world.loop.create_future()

    def synced(log: DiskLog | Synced) -> None:
        nonlocal left
        left -= topic in (None, log.topic)
        if left <= 0 and not reached.done():
            reached.set_result(None)

    stage.world.disk.on_synced = synced
    await asyncio.wait([reached], timeout=_SYNCS_SECONDS)
    stage.world.disk.on_synced = None
    if reached.done():
        stage.world.faults["power-cut-at-sync"] += 1
        await _power_cut(stage, fault)


async def _crash_at_change(stage: Stage, fault: Fault) -> None:
    """Kill the broker, or cut the power, in the middle of a change of the catalog, or when it has just ended."""
    left = 1 + fault.size % _STEPS_MAX
    reached = stage.world.loop.create_future()

    def step() -> None:
        nonlocal left
        left -= 1
        if left <= 0 and not reached.done():
            reached.set_result(None)

    catalog = cast("WholeMachine", stage.world).catalog_file
    catalog.on_step = step
    await asyncio.wait([reached], timeout=_SYNCS_SECONDS)
    catalog.on_step = None
    if reached.done():
        stage.world.faults["crash-at-change"] += 1
        await asyncio.sleep(fault.for_ms / 300_000)
        await (_power_cut if fault.cuts_power else _kill)(stage, fault)


async def _clean_stop(stage: Stage, fault: Fault) -> None:
    stage.on_crash("clean-stop")  # from now on it closes connections, one by one
    await stage.world.stop_broker()
    stage.on_crash("clean-stop")
    await asyncio.sleep(fault.for_ms / 1000)
    await _start(stage)


async def _pause(stage: Stage, fault: Fault) -> None:
    stage.world.pause_broker()
    await asyncio.sleep(fault.for_ms / 100)
    stage.world.resume_broker()


async def _clock_jump(stage: Stage, fault: Fault) -> None:
    stage.world.jump_clock(fault.size)


async def _cut(stage: Stage, fault: Fault) -> None:
    for connection in stage.world.network.of(stage.world.broker_process):
        if stage.world.chance.random() < 0.6:
            stage.world.fault("cut", connection.client.name if connection.client else "")
            connection.cut()


async def _half_open(stage: Stage, fault: Fault) -> None:
    for connection in stage.world.network.of(stage.world.broker_process):
        if stage.world.chance.random() < 0.4:
            stage.world.fault("half-open", connection.client.name if connection.client else "")
            connection.fall_silent()


async def _slow_network(stage: Stage, fault: Fault) -> None:
    stage.world.fault("slow-network")
    before = stage.world.network.latency_seconds
    stage.world.network.latency_seconds = (0.001, 0.2)
    await asyncio.sleep(fault.for_ms / 1000)
    stage.world.network.latency_seconds = before


async def _slow_disk(stage: Stage, fault: Fault) -> None:
    stage.world.fault("slow-disk")
    stage.world.disk.is_stalled = True
    await asyncio.sleep(fault.for_ms / 1000)
    stage.world.disk.is_stalled = False


async def _disk_full(stage: Stage, fault: Fault) -> None:
    stage.world.fault("disk-full")
    stage.files.is_full = True
    await asyncio.sleep(fault.for_ms / 300)
    stage.files.is_full = False


async def _disk_unreadable(stage: Stage, fault: Fault) -> None:
    """Reads fail; the disk answers again later."""
    stage.world.fault("disk-unreadable")
    stage.files.is_unreadable = True
    await asyncio.sleep(fault.for_ms / 500)
    stage.files.is_unreadable = False


async def _sync_fails(stage: Stage, fault: Fault) -> None:
    """The kernel drops what it could not write. The broker has to stop; its machine is started anew, or it alone is."""
    world = stage.world
    stage.files.failing_syncs = 1
    end = world.now_ms + _SYNCS_SECONDS * 1000
    while stage.files.failing_syncs and world.now_ms < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    if stage.files.failing_syncs:
        stage.files.failing_syncs = 0
        return
    world.fault("sync-fails")
    if await world.nodes[0].has_ended(_ENDED_SECONDS):
        world.broker_failures.clear()
    else:
        world.broker_failures.append(AssertionError("the broker serves although a sync has failed"))
    stage.on_crash("power-cut" if fault.cuts_power else "kill")
    if fault.cuts_power:
        world.cut_power()
        stage.on_crash("power-cut")
    await asyncio.sleep(fault.for_ms / 1000)
    await _start(stage)


async def _partition(stage: Stage, fault: Fault) -> None:
    """Some programs cannot reach the broker for a while; their connections stay open."""
    names = [name for name in stage.crowd.names() if stage.world.chance.random() < 0.5]
    stage.world.fault("partition", " ".join(names))
    stage.world.network.part(*names)
    await asyncio.sleep(fault.for_ms / 150)
    stage.world.network.heal()


async def _kill_client(stage: Stage, fault: Fault) -> None:
    name = _somebody(stage)
    if name is None:
        return
    silently = fault.size > 0
    stage.world.fault("kill-client", f"{name}{' with its machine' if silently else ''}")
    stage.world.kill(stage.crowd.process(name), silently=silently)
    if stage.crowd.on_killed is not None:
        stage.crowd.on_killed(name)
    await asyncio.sleep(fault.for_ms / 500)
    stage.crowd.restart(name)


async def _pause_client(stage: Stage, fault: Fault) -> None:
    name = _somebody(stage)
    if name is None:
        return
    stage.world.fault("pause-client", name)
    process = stage.crowd.process(name)
    stage.world.loop.pause(process)
    await asyncio.sleep(fault.for_ms / 150)
    stage.world.loop.resume(process)


def _somebody(stage: Stage) -> str | None:
    names = stage.crowd.names()
    return stage.world.chance.choice(names) if names else None


KINDS: dict[str, Callable[[Stage, Fault], Awaitable[None]]] = {
    "kill": _kill,
    "power-cut": _power_cut,
    "clean-stop": _clean_stop,
    "pause": _pause,
    "clock-jump": _clock_jump,
    "cut": _cut,
    "half-open": _half_open,
    "slow-network": _slow_network,
    "slow-disk": _slow_disk,
    "partition": _partition,
    "kill-client": _kill_client,
    "pause-client": _pause_client,
    "power-cut-at-sync": _power_cut_at_sync,
    "power-cut-stalled": _power_cut_stalled,
    "crash-at-change": _crash_at_change,
    "disk-full": _disk_full,
    "disk-unreadable": _disk_unreadable,
    "sync-fails": _sync_fails,
}
ON_FILES = ("disk-full", "disk-unreadable", "sync-fails")
"""What happens to a disk with files on it."""
ON_CATALOGS = ("crash-at-change",)
"""What happens to a catalog that is a file."""
EVERYWHERE = tuple(
    kind for kind in KINDS if kind not in ("power-cut-at-sync", "power-cut-stalled", *ON_FILES, *ON_CATALOGS)
)
"""What happens in scenarios that do not say otherwise."""
