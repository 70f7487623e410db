"""A broker becomes a member of its cluster, or leaves no trace when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation
from penstock.broker.joining import Links, join
from penstock.broker.world import LoopWorld
from penstock.storage.contract import LeasedStorage, StorageError
from tests.broker.test_membership import Database, Logs


def joined(database: Database, open_storage: Callable[[int], LeasedStorage]) -> Foundation:
    links = Links(database, database, database)  # type: ignore[arg-type]
    config = BrokerConfig({"node.id": "7", "broker.rack": "b"})
    world = LoopWorld(asyncio.get_running_loop())
    return join(links, "me", open_storage, list, config, world, lambda error: None)


async def test_the_storage_is_opened_under_the_epoch_of_the_lease() -> None:
    database, epochs = Database(), []

    def open_storage(epoch: int) -> LeasedStorage:
        epochs.append(epoch)
        return Logs()  # type: ignore[return-value]

    foundation = joined(database, open_storage)
    assert epochs == [database.brokers_[7].epoch]
    assert (database.brokers_[7].instance_id, database.brokers_[7].rack) == ("me", "b")
    assert foundation.shared is not None
    assert foundation.shared.membership is not None
    assert foundation.shared.storage is foundation.storage
    assert foundation.shared.membership.check()
    foundation.release()


async def test_a_lease_is_given_back_if_the_storage_cannot_be_opened() -> None:
    database = Database()

    def open_storage(epoch: int) -> LeasedStorage:
        raise StorageError("no room")

    with pytest.raises(StorageError, match="no room"):
        joined(database, open_storage)
    assert not database.brokers_[7].is_live
