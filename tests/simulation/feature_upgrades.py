"""The last step of a rolling upgrade: an administrator raises `transaction.version` while producers work, and takes it
back. Clients find out by themselves, each in its own time, and have transactions of the earlier kind under way."""

from __future__ import annotations

import asyncio
import random

from penstock.broker.features import SAFE_DOWNGRADE, TRANSACTION_VERSION, UPGRADE
from penstock.wire import messages as m
from tests.simulation.clusters import ClusterTransactions
from tests.simulation.raw import Lost, RawClient
from tests.simulation.scenario import Scenario
from tests.simulation.streams import Transactions

_LEVELS = (0, 1, 2)
_CHANGES = 10


class Upgraded(Scenario):
    """A load of transactions, among levels that change."""

    async def load(self) -> None:
        administration = self.world.spawn("administrator", self._administrate)
        await super().load()
        await administration.task

    async def _administrate(self) -> None:
        chance = random.Random(f"administrator of {self.seed}")
        for _ in range(_CHANGES):
            await asyncio.sleep(chance.uniform(0, 0.8))
            level = chance.choice(_LEVELS)
            for kind in (UPGRADE, SAFE_DOWNGRADE):
                update = m.UpdateFeaturesRequest.FeatureUpdateKey(TRANSACTION_VERSION, level, False, kind)
                try:
                    address = chance.choice(self.world.nodes).address
                    client = await RawClient.connect(self.world, "administrator", address=address)
                    answer = await client.ask(m.UpdateFeaturesRequest(2_000, [update]), m.UpdateFeaturesResponse)
                    client.close()
                except Lost:
                    continue
                if answer.error_code == 0 and not any(each.error_code for each in answer.results):
                    self.figures["levels changed"] += 1
                    self.world.tell("administrator", f"{TRANSACTION_VERSION} is {level}")
                    break


class UpgradedTransactions(Upgraded, Transactions):
    """`transactions`, while transaction.version goes up and down between 0 and 2."""

    name = "transactions-upgraded"


class ClusterUpgradedTransactions(Upgraded, ClusterTransactions):
    """`transactions-upgraded`, of which each broker hears in its own time."""

    name = "cluster-transactions-upgraded"
