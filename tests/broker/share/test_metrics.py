"""Share groups are measured under Kafka's names."""

from __future__ import annotations

from urllib.request import urlopen

import pytest

from penstock.client import sync
from penstock.testing import Broker
from tests.broker.share.share_client import (
    ACCEPT,
    RELEASE,
    ShareMember,
    Wire,
    broken_batch,
    free_port,
    initialize,
    produce,
    produce_batch,
    topic_id,
)


@pytest.mark.parametrize("partitions", [False, True])
def test_metrics_have_kafkas_names_and_single_partitions_where_they_are_requested(partitions: bool) -> None:
    port = free_port()
    configs = {"penstock.metrics.listen": f"127.0.0.1:{port}", "penstock.metrics.partitions": str(partitions).lower()}
    with Broker(configs) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            topic = topic_id(wire, "jobs")
            produce(wire, "jobs", [b"x"] * 10)
            initialize(wire, "g", topic)
            member = ShareMember(wire, "g", "m1", topic)
            fetched = member.fetch(max_records=6)
            member.acknowledge({0: [(0, 1, ACCEPT), (3, 3, RELEASE)]})
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
                lines = response.read().decode().splitlines()
    labels = '{group="g",topic="jobs",partition="0"}'
    sent = len(fetched.responses[0].partitions[0].records or b"")
    assert sent > 6
    for expected in (
        f'kafka_server_brokertopicmetrics_bytesout_total{{topic="jobs"}} {sent}',
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"} 2',
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Release"} 1',
        'penstock_share_group_in_flight_records{group="g",topic="jobs"} 4',
        'penstock_share_group_held_records{group="g",topic="jobs"} 3',
        "kafka_server_sharesessioncache_sharesessionscount 1",
        "kafka_server_brokertopicmetrics_totalsharefetchrequests_total 1",
    ):
        assert expected in lines
    single = (
        f"kafka_server_sharepartitionmetrics_inflightmessagecount{labels} 4",
        f"kafka_server_sharepartitionmetrics_inflightbatchmessagecount{labels} 3",
    )
    assert [line in lines for line in single] == [partitions, partitions]


def test_unreadable_records_are_counted_by_group() -> None:
    port = free_port()
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            produce_batch(wire, "jobs", broken_batch(10))
            initialize(wire, "g", topic_id(wire, "jobs"))
            ShareMember(wire, "g", "m", topic_id(wire, "jobs")).fetch(max_records=1)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
    assert 'penstock_share_unreadable_records_total{group="g"} 10' in lines


def test_records_in_flight_and_held_are_those_of_the_windows_whatever_happens_to_them() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        parts = broker._running().parts

        def shown() -> dict[tuple[str, ...], tuple[float, float]]:
            """By group and topic; what the windows themselves say has to be the same."""
            share = parts.share_groups
            metrics = {metric.name: dict(metric.samples) for metric in share.metrics.tallies.metrics() if metric}
            in_flight, held = (metrics[f"penstock_share_group_{name}_records"] for name in ("in_flight", "held"))
            found = {place: (in_flight[place], held[place]) for place in in_flight}
            sums: dict[tuple[str, ...], tuple[float, float]] = {}
            for live in share.windows.all():
                place = live.group_id, live.partition.topic.name
                before = sums.get(place, (0, 0))
                held_here = sum(live.core.held_by_member().values())
                sums[place] = (before[0] + live.core.in_flight, before[1] + held_here)
            assert found == sums
            return found

        def looked_at() -> dict[tuple[str, ...], tuple[float, float]]:
            return broker._call(shown)

        broker.create_topic("jobs", 2)
        broker.create_topic("mail")
        assert looked_at() == {}
        with Wire(broker) as wire:
            members = []
            for name, partitions in (("jobs", 2), ("mail", 1)):
                topic = topic_id(wire, name)
                initialize(wire, "g", topic, partitions)
                for partition in range(partitions):
                    produce(wire, name, [b"x"] * 10, partition)
                members.append(ShareMember(wire, "g", "m", topic))
                members[-1].fetch(max_records=100, partitions=tuple(range(partitions)))
                assert looked_at()["g", name] == (10 * partitions, 10 * partitions)
            members[0].acknowledge({0: [(0, 4, ACCEPT)], 1: [(3, 5, ACCEPT), (9, 9, RELEASE)]})
            assert looked_at() == {("g", "jobs"): (15, 11), ("g", "mail"): (10, 10)}
        with sync.Admin(broker.client_settings()) as admin:
            admin.delete_topics(["mail"])
        assert ("g", "mail") not in looked_at()
