"""`python -m tests.conformance`: the same conversations with a real Apache Kafka and with Penstock, compared.

--record        ask only Apache Kafka, twice, check that it agrees with itself, and write its answers to golden/
--recorded      compare Penstock with the recordings instead of a live Kafka (no Java needed)
--document      write the intended differences into the pages of docs/reference
SCENARIO ...    only scenarios whose title contains one of these words
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import click
from rich.console import Console
from rich.progress import track

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, PeerError, PenstockPeer

from . import document
from .allowed import Allowed, idle, judged
from .compare import Difference, differences
from .meant_cluster import allowed_here
from .receiving import ReceivingKafkaPeer, ReceivingPenstockPeer
from .scenarios import Scenario, Stage, all_scenarios
from .secured import SecuredKafkaPeer, SecuredPenstockPeer
from .stage import PENSTOCK_SETTINGS, SETTINGS, Recording, load, play_all, save

console = Console(soft_wrap=True)


def chosen(words: tuple[str, ...]) -> list[Scenario]:
    return [s for s in all_scenarios().values() if not words or any(word in s.title for word in words)]


def penstock(stage: Stage) -> PenstockPeer:
    peers: dict[Stage, type[PenstockPeer]] = {
        Stage.OPEN: PenstockPeer,
        Stage.SECURED: SecuredPenstockPeer,
        Stage.RECEIVING: ReceivingPenstockPeer,
    }
    return peers[stage](PENSTOCK_SETTINGS)


def kafka(stage: Stage) -> KafkaPeer:
    if stage is Stage.OPEN:
        return KafkaPeer(SETTINGS, jvm_options=SMALL_JVM_OPTIONS)
    return SecuredKafkaPeer(SETTINGS) if stage is Stage.SECURED else ReceivingKafkaPeer(SETTINGS)


def stages(scenarios: list[Scenario]) -> Iterator[tuple[Stage, list[Scenario]]]:
    """The scenarios of each broker."""
    for stage in Stage:
        if those := [scenario for scenario in scenarios if scenario.stage is stage]:
            yield stage, those


def recorded_from(scenarios: list[Scenario]) -> Iterator[tuple[Scenario, Recording]]:
    """What a fresh Apache Kafka answers."""
    for stage, those in stages(scenarios):
        with kafka(stage) as peer:
            for scenario in track(those, "recording", console=Console(stderr=True), transient=True):
                yield scenario, play_all(scenario, peer.port, scenario.versions)


def record(scenarios: list[Scenario]) -> int:
    unstable = 0
    recordings = dict(recorded_from(scenarios))
    for scenario, again in recorded_from(scenarios):
        recording = recordings[scenario]
        for version, transcript in recording.items():
            found = differences(transcript, again[version])
            unstable += len(found)
            show(f"not stable: {scenario.title} v{version}", found)
        broken = [transcript[0] for transcript in recording.values() if "broke off" in transcript[0]]
        if broken:
            unstable += 1
            console.print(f"broken: {scenario.title}: {broken[0]}", markup=False)
        else:
            save(scenario, recording)
    console.print(f"{len(scenarios)} scenarios recorded, {unstable} unstable answers")
    return unstable


def compare(scenarios: list[Scenario], *, recorded: bool) -> int:
    wrong = steps = 0
    allowed = allowed_here()
    for stage, those in stages(scenarios):
        with ExitStack() as stack:
            ours = stack.enter_context(penstock(stage))
            theirs = None if recorded else stack.enter_context(kafka(stage))
            for scenario in track(those, "comparing", console=Console(stderr=True), transient=True):
                kafkas = load(scenario) if theirs is None else play_all(scenario, theirs.port, scenario.versions)
                steps += sum(len(transcript) for transcript in kafkas.values())
                wrong += compared(scenario, kafkas, play_all(scenario, ours.port, scenario.versions), allowed)
    console.print(
        f"{len(scenarios)} scenarios, {steps} answers compared, {len(allowed)} differences are meant, {wrong} are not"
    )
    return wrong


def compared(scenario: Scenario, kafkas: Recording, ours: Recording, allowed: tuple[Allowed, ...]) -> int:
    """Shows the differences that are not meant, and the entries that excuse nothing; how many there are."""
    wrong = 0
    used: set[Allowed] = set()
    for version, transcript in ours.items():
        found, covering = judged(scenario.title, differences(kafkas[version], transcript), allowed)
        used |= covering
        wrong += len(found)
        show(f"{scenario.title} v{version}", found)
    for entry in idle(scenario.title, used, allowed):
        wrong += 1
        console.print(f"excuses nothing any more: {entry}", markup=False, highlight=False)
    return wrong


def show(title: str, found: list[Difference]) -> None:
    for difference in found:
        console.print(f"{title}: {difference}", markup=False, highlight=False)


@click.command(help=__doc__)
@click.option("--record", "recording", is_flag=True)
@click.option("--recorded", is_flag=True)
@click.option("--document", "documenting", is_flag=True)
@click.argument("words", nargs=-1)
def main(recording: bool, recorded: bool, documenting: bool, words: tuple[str, ...]) -> None:
    if documenting:
        document.write()
        return
    try:
        problems = record(chosen(words)) if recording else compare(chosen(words), recorded=recorded)
    except PeerError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
