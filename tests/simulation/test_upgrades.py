"""Migrations are cut off in the middle, and what would lose something by that is found."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants_of_upgrades import UPGRADES
from tests.simulation.scenario import run
from tests.simulation.scenarios import SCENARIOS

_HAPPENS = ("starts cut off", "catalog changes cut off", "catalog changes refused", "catalog changes lost")


def test_catalogs_are_cut_off_refused_and_lose_what_nobody_was_promised() -> None:
    happened = Counter[str]()
    for seed in range(40):
        for name in ("files-upgrades", "files-configs"):
            happened.update(run(SCENARIOS[name], seed).figures)
        if all(happened[each] for each in _HAPPENS):
            break
    assert not [each for each in _HAPPENS if not happened[each]]


@pytest.mark.parametrize("mutant", UPGRADES, ids=lambda each: each.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    with mutant.applied():
        found = next((seed for seed in mutant.tried if mutant.run(seed).findings), None)
    assert found is not None, f"{mutant.name} survived {mutant.seeds} seeds: {mutant.what}"
    assert not mutant.run(found).findings
