"""A scenario is load and faults; running one with a seed gives a history, and the checkers judge it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.broker.server import Broker
from penstock.catalog.contract import Catalog
from penstock.checks import Finding, check
from penstock.checks.history import Operation, checked
from penstock.security.protocols import SecurityProtocol
from penstock.simulation import Simulation
from penstock.simulation.world import OneBroker, SimulatedWorld
from tests.simulation.faults import EVERYWHERE, Crowd, Fault, Stage, carry_out, plan_of
from tests.simulation.raw import RawClient


class History:
    """What clients did and saw, in the order in which it became known."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.operations: list[Operation] = []
        self.findings: list[Finding] = []
        """What a scenario finds by itself."""
        self.power_was_cut = False
        self._world = world

    def add(self, op: str, **fields: object) -> None:
        self.operations.append({"op": op, **fields})
        what = " ".join(f"{name}={value}" for name, value in fields.items() if name not in ("process", "member"))
        self._world.tell(str(fields.get("process", fields.get("member", ""))), f"{op} {what}")

    def crashed(self, kind: str) -> None:
        if kind == "restart":
            self.restarted()
            return
        self.add("fault", kind="power-cut" if kind == "power-cut" else "kill", time=self._world.now_ms)
        if kind == "power-cut":
            self.power_was_cut = True
            for _, loss in self._world.losses:
                self.add("lost", topic=loss.topic, partition=loss.partition, offset=loss.first_offset)
            self._unsee()

    def _unsee(self) -> None:
        """Readers see records before they are on disk, as in Kafka, so a power cut may take back what was polled.

        What was committed in a transaction, and what was acknowledged, is on disk: that stays in the history.
        """
        transactional = {each["value"] for each in self.operations if each["op"] == "send" and each.get("txn")}
        lost = [loss for _, loss in self._world.losses]
        for operation in self.operations:
            if operation["op"] != "poll":
                continue
            committed = operation.get("isolation") == "read_committed"
            operation["records"] = [
                record
                for record in operation["records"]  # type: ignore[attr-defined]
                if (committed and record[3] in transactional)
                or not any(
                    record[:2] == [loss.topic, loss.partition] and record[2] >= loss.first_offset for loss in lost
                )
            ]
        self._world.losses.clear()

    def restarted(self) -> None:
        self.add("fault", kind="restart", time=self._world.now_ms)

    def judge(self) -> list[Finding]:
        found = check(checked(operation, line) for line, operation in enumerate(self.operations, 1))
        return [*found, *self.findings]


class Scenario:
    """One run of a kind of load. Subclasses say what it is."""

    name = ""
    kinds: Sequence[str] = EVERYWHERE
    lasts_ms = 3000
    healed_seconds = 600
    """How long everything may take once the last fault is healed."""

    def __init__(self, world: SimulatedWorld, history: History, seed: int, plan: Sequence[Fault]) -> None:
        self.world = world
        self.history = history
        self.seed = seed
        self.plan = plan
        """The faults that are going to happen."""
        self.crowd = Crowd(world)
        """Whom faults of clients happen to."""
        self.faults_are_over = False
        self.figures: Counter[str] = Counter()
        """What happened, beyond what the world counts."""

    def find(self, check: str, text: str) -> None:
        self.history.findings.append(Finding(check, text, 0))

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {}

    @classmethod
    def security_protocol(cls, seed: int) -> SecurityProtocol:
        """Of the brokers' listeners."""
        return SecurityProtocol.PLAINTEXT

    # -- the world, for loads that do not care what it is ------------------------------------------------------------

    @classmethod
    def make_world(cls, seed: int) -> SimulatedWorld:
        return Simulation(seed, cls.configs(seed), cls.security_protocol(seed))

    @property
    def alone(self) -> OneBroker:
        """The world, of loads on one broker."""
        assert isinstance(self.world, OneBroker)
        return self.world

    @property
    def catalog(self) -> Catalog:
        return self.alone.catalog

    async def inject(self) -> None:
        """Let the faults happen."""
        await carry_out(Stage(self.alone, self.crowd, self.crashed), self.plan)

    def crashed(self, kind: str) -> None:
        """The broker is gone, or is back ("restart")."""
        self.history.crashed(kind)

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        """Returns its id."""
        return self.alone.broker.parts.topics.create(name, partitions, dict(configs or {})).topic_id

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where each partition of a topic ends."""
        assert isinstance(self.world, Simulation)
        return {index: log.log_end_offset for index, log in self.world.disk.logs_of(topic).items()}

    async def connect(self, name: str, partition: int = 0) -> RawClient:
        """A scripted client, connected to whoever leads a partition. Raises Lost."""
        return await RawClient.connect(self.world, name)

    def leading(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition."""
        return self.alone.broker

    def expects(self, error: str) -> bool:
        """Whether a broker may log this error, because of what was done to it."""
        return False

    # -- the story ---------------------------------------------------------------------------------------------------

    def before_start(self) -> None:
        """There is no broker yet."""

    async def prepare(self) -> None:
        """The broker has started, and no fault has happened yet."""

    async def load(self) -> None:
        """What clients do while faults happen; returns when they have nothing more to do."""

    async def finish(self) -> None:
        """What clients do when all faults are over."""

    async def settle(self) -> None:
        """Wait for what brokers do when no client does anything any more, and look at it."""

    def conclude(self) -> None:
        """The world is over: bring the history into the form that the checkers take."""


@dataclass
class Outcome:
    scenario: str
    seed: int
    plan: list[Fault]
    world: SimulatedWorld
    history: History
    findings: list[Finding]
    errors: list[str] = field(default_factory=list)
    """What the broker logged as errors."""
    figures: Counter[str] = field(default_factory=Counter)
    """What happened, in numbers."""

    @property
    def checks(self) -> set[str]:
        return {found.check for found in self.findings}

    def story(self) -> str:
        """Who did what when, for a person."""
        lines = [f"scenario {self.scenario}, seed {self.seed}: {len(self.findings)} findings"]
        lines += [f"  {found}" for found in self.findings]
        lines += ["faults", *(f"  {fault}" for fault in self.plan), "story"]
        lines += [f"  {at_ms:>7} ms  {who:<12} {what}" for at_ms, who, what in self.world.story]
        return "\n".join(lines)


def run(scenario: type[Scenario], seed: int, plan: list[Fault] | None = None) -> Outcome:
    """Run a scenario with a seed; with a plan of one's own instead of the seed's to find out what a fault matters."""
    plan = plan_of(seed, scenario.kinds, scenario.lasts_ms) if plan is None else plan
    world = scenario.make_world(seed)
    history = History(world)
    running = scenario(world, history, seed, plan)

    async def main() -> None:
        running.before_start()
        await world.start()
        await running.prepare()
        load = asyncio.get_running_loop().create_task(running.load())
        await running.inject()
        world.tell("world", "all faults are over")
        running.faults_are_over = True
        async with asyncio.timeout(running.healed_seconds):
            await load
            await running.finish()
            await running.settle()

    with _errors() as errors:
        try:
            world.run(main())
        except Exception as error:
            history.findings.append(Finding("stuck", f"the world came to no end: {error!r}", 0))
    running.conclude()
    for text in running.crowd.failures:
        history.findings.append(Finding("program-failed", text, 0))
    for text in errors:
        if running.expects(text):
            continue
        history.findings.append(Finding("broker-error", text, 0))
    for failure in world.broker_failures:
        history.findings.append(Finding("broker-failed", repr(failure), 0))
    figures = Counter(world.figures) + running.figures
    return Outcome(scenario.name, seed, plan, world, history, history.judge(), errors, figures)


def shrink(scenario: type[Scenario], outcome: Outcome) -> Outcome:
    """Leave out faults, one by one, as long as the same check still fires."""
    smallest = outcome
    for fault in outcome.plan:
        fewer = [each for each in smallest.plan if each is not fault]
        again = run(scenario, outcome.seed, fewer)
        if again.checks & outcome.checks:
            smallest = again
    return smallest


@contextmanager
def _errors() -> Iterator[list[str]]:
    """What the broker logs as errors while the world runs: nothing in a healthy one."""
    texts: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failure = f" ({record.exc_info[1]!r})" if record.exc_info else ""
            texts.append(record.getMessage() + failure)

    handler, logger = Keep(logging.ERROR), logging.getLogger("penstock")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
