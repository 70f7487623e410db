"""The broker's figures as Prometheus reads them."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Coroutine, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from penstock.broker.metrics import Metric, Metrics
from penstock.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as it:
        it.create_topic("orders", 2)
        yield it


def text(broker: Broker) -> str:
    """What the monitoring endpoint shows to somebody who looks."""
    parts = broker._running().parts
    broker._call(parts.build_all)
    return broker._call(parts.metrics.text)


def figures(broker: Broker) -> dict[str, float]:
    lines = [line for line in text(broker).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_every_sample_follows_the_help_and_the_type_of_its_metric(broker: Broker) -> None:
    name, kind = "", ""
    for line in text(broker).splitlines():
        if line.startswith("# HELP"):
            name, kind = line.split()[2], ""
        elif line.startswith("# TYPE"):
            _, _, typed, kind = line.split()
            assert typed == name
            assert kind in ("counter", "gauge", "histogram")
        else:
            assert kind
            assert re.fullmatch(rf'{name}(_bucket|_sum|_count)?(\{{(\w+="[^"]*",?)+\}})? [-+.e0-9]+', line), line


def test_what_others_register_is_collected_when_somebody_looks(broker: Broker) -> None:
    level = [1]
    metrics = broker._running().parts.metrics
    broker._call(lambda: metrics.register(lambda: [Metric("penstock_topic_size_bytes").add(level[0], "water")]))
    level[0] = 5
    assert figures(broker)['penstock_topic_size_bytes{topic="water"}'] == 5


def test_labels_that_are_not_plain_text_are_escaped() -> None:
    odd = Metric("penstock_topic_size_bytes").add(1, 'a"b\\c\nd')
    assert "".join(odd.pieces()).splitlines()[-1] == r'penstock_topic_size_bytes{topic="a\"b\\c\nd"} 1'


def test_large_numbers_keep_all_of_their_digits() -> None:
    large = Metric("penstock_topic_size_bytes").add(123_456_789_012, "t")
    assert "".join(large.pieces()).splitlines()[-1].endswith(" 123456789012")


def test_a_metric_that_is_not_in_the_table_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        Metric("water_level")


async def test_a_long_scrape_lets_others_run_between_its_slices() -> None:
    now = itertools.count()
    metrics = Metrics(lambda: next(now) * 0.001)  # every look at the clock takes a millisecond

    def collect() -> Iterator[Metric | None]:
        for _ in range(100):
            yield None
        yield Metric("penstock_topic_size_bytes").add(1, "t")

    metrics.register(collect)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    text = b"".join(await metrics.scrape()).decode()
    task.cancel()
    assert text == metrics.text()
    assert turns >= 30


def test_what_happened_to_groups_logs_and_transactions_is_counted() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0", "penstock.acks.all.flush": "true"}) as broker:
        broker.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "acks": "all"})
        producer.init_transactions(30)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("orders", b"x", partition=0)
            assert producer.flush(30) == 0
            end(30)
        for protocol in ("classic", "consumer"):
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": protocol,
                    "group.protocol": protocol,
                    "auto.offset.reset": "earliest",
                }
            )
            consumer.subscribe(["orders"])
            assert consumer.poll(30) is not None
            consumer.close()
        found = figures(broker)
    assert found['penstock_transactions_ended_total{outcome="commit"}'] == 1
    assert found['penstock_transactions_ended_total{outcome="abort"}'] == 1
    coordinator = "kafka_server_group_coordinator_metrics_"
    assert found[coordinator + "group_completed_rebalance_count"] >= 1
    assert found[coordinator + "consumer_group_rebalance_count"] >= 1
    assert found[coordinator + "share_group_rebalance_count"] == 0
    assert found["kafka_log_logflushstats_logflushrateandtimems_count"] > 0
    assert found["kafka_log_logflushstats_logflushrateandtimems_sum"] > 0
    assert found['penstock_topic_segments{topic="orders"}'] == 2
    assert found["kafka_server_replicamanager_leadercount"] >= 2
    assert found['penstock_success_age_seconds{task="writes to __transaction_state"}'] == 0


def test_openmetrics_is_what_its_strict_reader_takes(broker: Broker) -> None:
    metrics = broker._running().parts.metrics
    plain = {name.partition("{")[0] for name in figures(broker)}
    shown = b"".join(broker._call(lambda: _run(metrics.scrape(openmetrics=True)))).decode()
    assert shown.endswith("# EOF\n")
    parsed = text_string_to_metric_families(shown)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert families["kafka_server_brokertopicmetrics_bytesin"].type == "counter"
    assert families["process_resident_memory_bytes"].unit == "bytes"
    assert families["kafka_network_requestmetrics_totaltimems"].type == "histogram"
    assert plain == {sample.name for family in families.values() for sample in family.samples}


def _run(coroutine: Coroutine[None, None, list[bytes]]) -> list[bytes]:
    """To its end: nothing that it waits for is more than a turn of the event loop."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return list(end.value)


async def test_a_metric_with_too_many_series_is_cut_and_what_is_left_out_is_counted() -> None:
    metrics = Metrics(lambda: 0.0, lambda: 2)

    def collect() -> Iterator[Metric]:
        size = Metric("penstock_topic_size_bytes")
        for number in range(5):
            size.add(number, f"topic-{number}")
        yield size

    metrics.register(collect)
    lines = b"".join(await metrics.scrape()).decode().splitlines()
    assert [line for line in lines if line.startswith("penstock_topic_size_bytes{")] == [
        'penstock_topic_size_bytes{topic="topic-0"} 0',
        'penstock_topic_size_bytes{topic="topic-1"} 1',
    ]
    assert 'penstock_metrics_left_out_series{metric="penstock_topic_size_bytes"} 3' in lines
    assert metrics.text().splitlines() == lines
