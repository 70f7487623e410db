"""One of several brokers on one machine: its own logs and lock, the catalog of all."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.foundation import Settings
from penstock.broker.listeners import bind, parse_address
from penstock.broker.processes.folder import prepare
from penstock.broker.processes.foundation import foundation_among
from penstock.broker.server import Broker
from penstock.log.errors import FolderInUse
from tests.broker.raw import is_alive


def broker(data: Path, node_id: int, undo: ExitStack) -> Broker:
    bound = undo.enter_context(bind(parse_address("127.0.0.1:0")))
    settings = Settings(data, ["127.0.0.1:0"], configs={"node.id": str(node_id)})
    return Broker(settings, partial(foundation_among, (1, 2), [bound]))


async def test_each_keeps_its_logs_in_a_folder_of_its_own_and_serves_at_the_socket_that_it_is_given(
    tmp_path: Path,
) -> None:
    prepare(tmp_path, (1, 2))
    with ExitStack() as undo:
        brokers = [broker(tmp_path, node_id, undo) for node_id in (1, 2)]
        for each in brokers:
            await each.start()
            assert not each.parts.storage.may_have_lost_writes, "there was nothing to lose"
        brokers[0].parts.topics.create("t", 2, {})
        assert await asyncio.to_thread(is_alive, brokers[1].port)
        brokers[1].parts.cluster.topic("t")
        assert (tmp_path / "brokers" / "1" / "t-0").is_dir()
        assert (tmp_path / "brokers" / "2" / "t-1").is_dir()
        for each in brokers:
            each.stop()
            await each.serve()


async def test_two_cannot_be_the_same_broker(tmp_path: Path) -> None:
    prepare(tmp_path, (1, 2))
    with ExitStack() as undo:
        one, same = broker(tmp_path, 1, undo), broker(tmp_path, 1, undo)
        await one.start()
        with pytest.raises(FolderInUse):
            await same.start()
        one.stop()
        await one.serve()
