"""Seeds of every scenario: nothing is found, every fault happens, and the same seed does the same again."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.faults import KINDS, Fault
from tests.simulation.scenario import run, shrink
from tests.simulation.scenarios import SCENARIOS, SEEDS

_SEEDS_AT_A_TIME = 10
_RUN_AGAIN = (3, 4)
_OF_FILES = (
    "writes lost",
    "writes torn",
    "names lost",
    "writes refused",
    "writes cut short",
    "files refused",
    "reads cold",
    "reads refused",
    "syncs failed",
)


@pytest.mark.parametrize(
    ("name", "first"),
    [(name, first) for name, count in SEEDS.items() for first in range(0, count, _SEEDS_AT_A_TIME)],
)
def test_no_seed_finds_anything_and_some_are_seen_to_do_the_same_again(name: str, first: int) -> None:
    for seed in range(first, first + _SEEDS_AT_A_TIME):
        outcome = run(SCENARIOS[name], seed)
        assert not outcome.findings, shrink(SCENARIOS[name], outcome).story()
        if seed in _RUN_AGAIN:
            assert run(SCENARIOS[name], seed).world.trace == outcome.world.trace


def test_what_a_plan_of_ones_own_may_lose_is_not_promised() -> None:
    """A write with acks=1 survives a killed broker and no power cut: which of them comes, only the plan says."""
    assert not run(SCENARIOS["streams"], 1, [Fault(800, "power-cut", 300, 0)]).findings


def test_every_scenario_of_the_table_is_run() -> None:
    assert SEEDS.keys() == SCENARIOS.keys()


def test_every_kind_of_fault_happens() -> None:
    happened = Counter[str]()
    for seed in range(30):
        for name in ("queues", "power-cuts-at-syncs", "files-streams", "files-trimmed", "files-configs"):
            happened.update(run(SCENARIOS[name], seed).world.faults)
        if happened.keys() >= KINDS.keys():
            break
    assert happened.keys() == KINDS.keys()


def test_everything_happens_to_files_that_a_disk_can_do_to_them() -> None:
    happened = Counter[str]()
    for seed in range(40):
        happened.update(run(SCENARIOS["files-streams"], seed).world.figures)
        if all(happened[each] for each in _OF_FILES):
            break
    assert not [each for each in _OF_FILES if not happened[each]]
