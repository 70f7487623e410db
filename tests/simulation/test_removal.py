"""Records do go away in the scenarios that are about it; that they do not go too early is checked by mutants."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.scenario import run
from tests.simulation.scenarios import SCENARIOS

_REMOVED = {
    "files-trimmed": ("times records were deleted", "logs that retention has cut"),
    "files-compacted": ("times records were deleted", "offsets without a record"),
    "files-queues-trimmed": ("times records were deleted",),
    "cluster-trimmed": ("times records were deleted", "logs that retention has cut", "objects removed"),
    "cluster-compacted": ("times records were deleted", "offsets without a record", "objects removed"),
}


@pytest.mark.parametrize("name", _REMOVED)
def test_records_go_away(name: str) -> None:
    happened = Counter[str]()
    for seed in range(8):
        happened.update(run(SCENARIOS[name], seed, []).figures)
        if all(happened[each] for each in _REMOVED[name]):
            break
    assert not [each for each in _REMOVED[name] if not happened[each]]
