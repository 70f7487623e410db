"""What the parts of the admin client share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.client.cluster import Cluster
from penstock.client.config import AdminConfig
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError

R = TypeVar("R", bound=m.Message)

Outcome = dict[str, KafkaError | None]


class AdminPart:
    """A family of admin calls over one cluster."""

    config: AdminConfig
    cluster: Cluster

    async def _everywhere(
        self, message: m.Message | Callable[[int], m.Message], response: type[R], at_least: int = 0
    ) -> list[R]:
        """The answers of all brokers: some things each of them knows only of itself."""
        await self.cluster.refresh()
        calls = [
            self.cluster.call(message, response, node=node, at_least=at_least) for node in self.cluster.metadata.nodes
        ]
        return list(await asyncio.gather(*calls))


def raise_first(outcome: Outcome) -> None:
    """Raise the first error of several, if there is one."""
    for error in outcome.values():
        if error is not None:
            raise error
