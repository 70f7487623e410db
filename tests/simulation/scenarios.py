"""All scenarios, by name."""

from __future__ import annotations

from tests.simulation.scenario import Scenario
from tests.simulation.streams import PowerCuts, Streams, Transactions

SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (Streams, Transactions, PowerCuts)}

SEEDS = {"streams": 60, "transactions": 40, "power-cuts": 30}
"""How many seeds of each the default tests run."""
