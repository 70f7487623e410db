"""All scenarios, by name."""

from __future__ import annotations

from tests.simulation.groups import ConsumerGroups, Groups, StaticMembers
from tests.simulation.queues import FlushedQueues, Queues
from tests.simulation.scenario import Scenario
from tests.simulation.streams import PowerCuts, Streams, Transactions

SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each
    for each in (Streams, Transactions, PowerCuts, Queues, FlushedQueues, Groups, ConsumerGroups, StaticMembers)
}

SEEDS = {
    "streams": 60,
    "transactions": 40,
    "power-cuts": 30,
    "queues": 60,
    "queues-flushed": 40,
    "groups": 40,
    "groups-848": 40,
    "static-members": 30,
}
"""How many seeds of each the default tests run."""
