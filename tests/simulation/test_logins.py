"""Logins are refused, sessions end and are renewed where users change; whoever lets in too many is found."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants_of_logins import LOGINS
from tests.simulation.scenario import run
from tests.simulation.scenarios import SCENARIOS

_HAPPENS = (
    "logins",
    "logins refused",
    "sessions renewed",
    "tokens taken",
    "tokens refused",
    "producers refused",
    "impostors refused",
    "strangers turned away",
    "changes of users",
    "changes of rules",
    "times it was allowed",
    "times it was denied",
)


@pytest.mark.parametrize("name", ["logins", "cluster-logins"])
def test_everything_happens_that_is_judged(name: str) -> None:
    happened = Counter[str]()
    for seed in range(8):
        happened.update(run(SCENARIOS[name], seed).figures)
        if all(happened[each] for each in _HAPPENS):
            break
    assert not [each for each in _HAPPENS if not happened[each]]


@pytest.mark.parametrize("mutant", LOGINS, ids=lambda each: each.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    with mutant.applied():
        found = next((seed for seed in mutant.tried if mutant.run(seed).findings), None)
    assert found is not None, f"{mutant.name} survived {mutant.seeds} seeds: {mutant.what}"
    assert not mutant.run(found).findings
