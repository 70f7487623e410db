"""Seeds that found something: what it was is fixed, and stays fixed."""

from __future__ import annotations

from tests.simulation.faults import Fault
from tests.simulation.scenario import run
from tests.simulation.scenarios import SCENARIOS


def test_a_batch_does_not_overtake_one_that_found_no_connection() -> None:
    """`penstock.client`: the first batch of an idempotent producer waited for a connection that could not be opened,
    the second one got the next connection, and the broker, which did not know the producer yet, took it first.
    """
    plan = [Fault(125, "half-open", 385, 0), Fault(1537, "slow-network", 282, 0), Fault(2795, "pause", 1188, 0)]
    outcome = run(SCENARIOS["streams"], 8, plan)
    assert not outcome.findings, outcome.story()
