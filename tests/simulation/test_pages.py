"""The page about the simulated world has every scenario and every fault."""

from __future__ import annotations

from tests.simulation import cluster_faults, faults
from tests.simulation.pages import FAULTS, PAGE, renewed
from tests.simulation.scenarios import SCENARIOS


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert renewed(page) == page, "write them anew with python -m tests.simulation.pages"


def test_every_kind_of_fault_is_described() -> None:
    assert FAULTS.keys() == faults.KINDS.keys() | cluster_faults.KINDS.keys()


def test_every_kind_of_fault_is_one_of_some_scenario() -> None:
    assert FAULTS.keys() == {kind for scenario in SCENARIOS.values() for kind in scenario.kinds}


def test_every_scenario_says_what_it_is() -> None:
    assert not [name for name, scenario in SCENARIOS.items() if not vars(scenario).get("__doc__")]
