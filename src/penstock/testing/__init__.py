"""A broker inside your tests: real sockets, real clients, nothing to install or start.

    with penstock.testing.Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

`Broker` runs in a thread of its own, so tests of any kind can use it; `AsyncBroker` runs in the event loop of the test.
Both can be made to fail (`broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)`), to be slow and to drop
connections. `MemoryBroker` has neither files nor sockets. `World` runs a broker and your programs in simulated time,
with crashes, pauses and slow networks. `VirtualClock` drives the coordinators, which have no clock of their own. With
pytest there is nothing to import: the fixtures `penstock_broker` and `penstock_session_broker` come with the
installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing.clock import VirtualClock

if TYPE_CHECKING:
    from penstock.testing.broker import AsyncBroker, Broker
    from penstock.testing.faults import Fault
    from penstock.testing.memory import MemoryBroker
    from penstock.testing.world import World
    from penstock.wire.errors import ErrorCode

__all__ = ["AsyncBroker", "Broker", "ErrorCode", "Fault", "MemoryBroker", "VirtualClock", "World"]


def __getattr__(name: str) -> object:
    """The broker is imported when it is used: the pytest plugin is loaded in every run, also in those without one."""
    if name in ("AsyncBroker", "Broker"):
        from penstock.testing import broker

        return getattr(broker, name)
    if name == "MemoryBroker":
        from penstock.testing.memory import MemoryBroker

        return MemoryBroker
    if name == "World":
        from penstock.testing.world import World

        return World
    if name == "Fault":
        from penstock.testing.faults import Fault

        return Fault
    if name == "ErrorCode":
        from penstock.wire.errors import ErrorCode

        return ErrorCode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
