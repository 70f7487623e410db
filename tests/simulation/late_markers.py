"""Markers that a coordinator has sent, and that arrive when another one has taken over and ended the transaction.

With transaction.version 1 the epoch of a producer stays what it is from one transaction to the next, so a late marker
looks like one of the transaction that is open by then. Only the epoch of its coordinator gives it away. That takes a
producer which goes on with the next coordinator, and a broker that is cut off while it coordinates.
"""

from __future__ import annotations

import asyncio
import random

from penstock.catalog.contract import replaced_by
from penstock.wire.errors import KafkaError
from tests.simulation.clusters import ClusterTransactions
from tests.simulation.transacting import transactional

_TRANSACTIONS_MAX = 250
_PRODUCERS = 5


class ClusterLateMarkers(ClusterTransactions):
    """Transactional producers with transaction.version 1 go on as long as faults happen, each with its epoch, while
    markers of coordinators that were replaced arrive late."""

    name = "cluster-late-markers"
    pause_seconds = 0.6
    commits = 0.85  # our own producers have a new epoch after an abort
    kinds = ("coordinator-cut-off", "coordinator-cut-off", "slow-network", "move-leaders")

    def before_start(self) -> None:
        super().before_start()
        self.catalog.change_features(replaced_by({"transaction.version": 1}))

    async def load(self) -> None:
        names = [f"steady-{number}" for number in range(_PRODUCERS)]
        programs = [self.world.spawn(name, self._transact, name, name) for name in names]
        await asyncio.gather(*(each.task for each in programs))

    async def _transact(self, name: str, transactional_id: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        number = 0
        while number < _TRANSACTIONS_MAX and not self.faults_are_over:
            try:
                async with transactional(self.world, transactional_id, transaction_timeout_ms=50_000) as producer:
                    while number < _TRANSACTIONS_MAX and not self.faults_are_over:
                        number += 1
                        await self._transaction(producer, name, f"{name}-{number}", chance)
            except KafkaError as error:
                self.world.tell(name, f"gives up this producer: {error!r}")
                await asyncio.sleep(chance.uniform(0.1, 0.5))
