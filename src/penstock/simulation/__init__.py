"""A simulated world: a whole broker, unchanged, with time, network, disk and chance in the hands of one seed.

    world = Simulation(seed=7)
    world.run(main(world))

`Simulation` is the world, `loop` its time and its processes, `network` its connections, `disk` what survives a power
cut. Programs that run in it (`penstock.client`, or anything on asyncio streams of bytes) connect as ever; a second run
with the same seed does the same, byte for byte.
"""

from __future__ import annotations

from penstock.simulation.loop import Process, SimulatedLoop, Stuck
from penstock.simulation.world import Simulation

__all__ = ["Process", "SimulatedLoop", "Simulation", "Stuck"]
