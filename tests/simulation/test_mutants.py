"""Every mutant is found by some seed, and a shrunk seed tells a story."""

from __future__ import annotations

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_of_removal import REMOVAL
from tests.simulation.scenario import run, shrink


@pytest.mark.parametrize("mutant", [*MUTANTS, *REMOVAL], ids=lambda each: each.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    with mutant.applied():
        found = next((seed for seed in mutant.tried if mutant.run(seed).findings), None)
    assert found is not None, f"{mutant.name} survived {mutant.seeds} seeds: {mutant.what}"
    assert not mutant.run(found).findings


def test_what_a_mutant_does_is_shrunk_and_told() -> None:
    [mutant] = [each for each in MUTANTS if each.name == "missing-sync"]
    with mutant.applied():
        outcome = next(each for each in (run(mutant.scenario, seed) for seed in range(40)) if each.findings)
        smallest = shrink(mutant.scenario, outcome)
    assert len(smallest.plan) <= len(outcome.plan)
    assert {fault.kind for fault in smallest.plan} == {"power-cut"}
    assert "lost offsets" in smallest.story()
    assert "power-cut" in smallest.story()
