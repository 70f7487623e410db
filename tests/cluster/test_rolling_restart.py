"""All brokers are drained, stopped and started again, one after the other: clients under load notice nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.client import Admin
from tests.cluster.storm.history import History, Wire, now_ms
from tests.cluster.storm.load import LOCK_MS, QUEUE, Load
from tests.cluster.storm.run import CONFIGS
from tests.cluster.storm.stage import Stage
from tests.cluster.test_takeover import PARTITIONS, TOPIC
from tests.cluster.test_takeover import Load as LibrdkafkaLoad

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
_WORK = {"send": 100, "txn-end": 10, "offset-commit": 30, "acknowledge": 30}
"""What is done between two steps, at the least."""
_PATIENCE_SECONDS = 120


async def worked(history: History) -> None:
    """Until every kind of work has gone on."""
    before = Counter(history.counts)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while any(history.counts[op] - before[op] < count for op, count in _WORK.items()):
        assert time.monotonic() < deadline, history.counts - before
        await asyncio.sleep(0.1)


async def test_a_rolling_restart_costs_clients_no_error(tmp_path: Path) -> None:
    history = History()
    async with Stage(tmp_path, 3, CONFIGS) as stage:
        with Wire(history, {node.clients.port: node.number for node in stage.nodes}).watched():
            async with Admin(bootstrap_servers=stage.bootstrap) as admin:
                await admin.create_topic(TOPIC, PARTITIONS, 3)
            load = Load(stage.bootstrap, history, seed=1)
            await load.prepare(replicas=3)
            load.start()
            librdkafka = LibrdkafkaLoad(stage.bootstrap)
            try:
                await worked(history)
                for node in stage.nodes:
                    assert await node.drain() == 0
                    await worked(history)
                    await node.start()
                    await worked(history)
            finally:
                numbers = await asyncio.to_thread(librdkafka.stop)
            wrong = await load.finish(_PATIENCE_SECONDS)
        clock_ms = now_ms() - int(time.time() * 1000)
        windows = [each for node in stage.nodes for each in node.windows(QUEUE, clock_ms)]
        wrong += map(str, history.judge(stage.leaders(history.topics, clock_ms), windows, LOCK_MS))
    assert wrong == []
    assert load.restarts == {}, "programs that met an error"
    outcomes = Counter(str(each["result"]) for each in history.operations if each["op"] in ("send", "txn-end"))
    assert outcomes.keys() == {"ok", "committed", "aborted"}
    assert len(numbers) > 0
