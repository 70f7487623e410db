"""A server of the world: what is sent is carried out, whatever becomes of the sender and of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.simulation.cluster import ClusterSimulation
from penstock.simulation.loop import Process
from penstock.simulation.remote import NoAnswer, Server


class Stage:
    def __init__(self) -> None:
        self.world = ClusterSimulation(1, brokers=0)
        self.server = Server(self.world, "server", (0.1, 0.2), 4.0)
        self.process = Process("client 1", "client", has_threads=True)
        self.done: list[str] = []
        self.heard: list[str] = []

    def ask(self, what: str) -> None:
        """Have the process send a request from a thread."""

        def thread() -> None:
            try:
                self.server.ask(self.process, what, lambda: self.done.append(what))
                self.heard.append(what)
            except NoAnswer as error:
                self.heard.append(str(error))

        self.world.loop.strands.start(self.process, thread)

    def run(self, *steps: Callable[[], object], seconds: float = 1.0) -> None:
        async def main() -> None:
            for step in steps:
                step()
                await asyncio.sleep(seconds)

        self.world.run(main())


def test_a_request_is_carried_out_and_answered() -> None:
    stage = Stage()
    stage.run(lambda: stage.ask("a"))
    assert (stage.done, stage.heard) == (["a"], ["a"])


def test_what_was_sent_is_carried_out_although_the_sender_dies_or_stands_still() -> None:
    for end in ("kill", "pause"):
        stage = Stage()

        async def main(stage: Stage = stage, end: str = end) -> None:
            stage.ask("a")
            await asyncio.sleep(0.05)
            getattr(stage.world.loop, end)(stage.process)
            await asyncio.sleep(1)

        stage.world.run(main())
        assert (stage.done, stage.heard) == (["a"], [])


def test_an_answer_may_be_lost() -> None:
    stage = Stage()
    stage.server.lost_answers = 1
    stage.run(lambda: stage.ask("a"), lambda: stage.ask("b"))
    assert stage.done == ["a", "b"]
    assert stage.heard == ["server: the connection was lost", "b"]


def test_a_server_that_is_away_does_nothing() -> None:
    stage = Stage()
    stage.server.is_away = True
    stage.run(lambda: stage.ask("a"))
    assert (stage.done, stage.heard) == ([], ["server is away"])


def test_what_was_sent_into_a_partition_arrives_when_it_is_healed_unless_the_sender_has_given_up() -> None:
    stage = Stage()
    network = stage.world.network
    network.part_between(["client"], ["server"])
    stage.run(lambda: stage.ask("a"), network.heal)
    assert (stage.done, stage.heard) == (["a"], ["a"])
    stage = Stage()
    stage.world.network.part_between(["client"], ["server"])
    stage.run(lambda: stage.ask("a"), stage.world.network.heal, seconds=5.0)
    assert (stage.done, stage.heard) == ([], ["server does not answer"])


def test_a_slow_server_does_what_was_requested_after_the_sender_has_given_up() -> None:
    stage = Stage()
    stage.server.latency_seconds = (5.0, 6.0)
    stage.run(lambda: stage.ask("a"), seconds=10.0)
    assert (stage.done, stage.heard) == (["a"], ["server does not answer"])
