"""The broker's lag is what the requests of Kafka's tools add up to, in a random run."""

from __future__ import annotations

import random

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.handlers.records import batch, produce, topic_id
from tests.broker.share.share_client import ACCEPT, ShareMember, initialize
from tests.broker.share.share_client import Wire as ShareWire
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire

PARTITIONS = 3
TOPICS = ("orders", "payments")
CONFIGS = {"penstock.metrics.listen": "127.0.0.1:0", "penstock.metrics.partitions": "true"}


def commit(wire: Wire, group: str, topic: str, partition: int, offset: int) -> None:
    request = m.OffsetCommitRequest
    committed = request.OffsetCommitRequestPartition(partition, committed_offset=offset, committed_metadata="")
    body = request(
        group,
        generation_id_or_member_epoch=-1,
        topics=[request.OffsetCommitRequestTopic(topic, partitions=[committed])],
    )
    answer = wire.ask(body, m.OffsetCommitResponse, 9)
    assert answer.topics[0].partitions[0].error_code == 0


def committed_offsets(wire: Wire, group: str) -> dict[tuple[str, int], int]:
    request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None)])
    answer = wire.ask(request, m.OffsetFetchResponse, 9).groups[0]
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


def end_offset(wire: Wire, topic: str, partition: int) -> int:
    request = m.ListOffsetsRequest
    requested = request.ListOffsetsTopic(topic, partitions=[request.ListOffsetsPartition(partition, timestamp=-1)])
    return wire.ask(request(topics=[requested]), m.ListOffsetsResponse, 7).topics[0].partitions[0].offset


def test_the_lag_of_consumer_groups_is_what_offset_fetch_and_list_offsets_say() -> None:
    chance = random.Random(18)
    ends = dict.fromkeys(((topic, index) for topic in TOPICS for index in range(PARTITIONS)), 0)
    with Broker(CONFIGS) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, PARTITIONS)
        wire = Wire(broker.port)
        broker._call(lambda: broker._running().parts.groups.runtime.ensure_topic())
        for _ in range(60):
            topic, index = chance.choice(TOPICS), chance.randrange(PARTITIONS)
            if chance.random() < 0.5:
                values = [b"x"] * chance.randint(1, 5)
                produce(wire, topic, batch(*values), partition=index)
                ends[topic, index] += len(values)
            else:
                commit(wire, chance.choice("gh"), topic, index, chance.randint(0, ends[topic, index]))
        found = figures(broker)
        for group in "gh":
            by_topic: dict[str, list[int]] = {}
            for (topic, index), offset in committed_offsets(wire, group).items():
                lag = end_offset(wire, topic, index) - offset
                by_topic.setdefault(topic, []).append(lag)
                labels = f'{{group="{group}",topic="{topic}",partition="{index}"}}'
                assert found[f"penstock_group_partition_lag_records{labels}"] == lag
            assert len(by_topic) == len(TOPICS)
            for topic, lags in by_topic.items():
                labels = f'{{group="{group}",topic="{topic}"}}'
                assert found[f"penstock_group_lag_records_sum{labels}"] == sum(lags)
                assert found[f"penstock_group_lag_records_max{labels}"] == max(lags)
                assert found[f"penstock_group_lag_age_seconds{labels}"] >= 0
                assert 0 <= found[f"penstock_group_commit_age_seconds{labels}"] < 3600
        wire.close()


def test_a_position_past_the_end_of_its_log_is_no_lag() -> None:
    with Broker(CONFIGS) as broker:
        broker.create_topic("orders")
        wire = Wire(broker.port)
        broker._call(lambda: broker._running().parts.groups.runtime.ensure_topic())
        commit(wire, "g", "orders", 0, 7)
        found = figures(broker)
        wire.close()
    assert found['penstock_group_lag_records_sum{group="g",topic="orders"}'] == 0
    assert found['penstock_group_lag_age_seconds{group="g",topic="orders"}'] == 0


def test_the_lag_of_share_groups_is_what_describe_share_group_offsets_says() -> None:
    chance = random.Random(932)
    with Broker(CONFIGS) as broker:
        broker.create_topic("jobs")
        wire = Wire(broker.port)
        with ShareWire(broker) as share_wire:
            jobs = topic_id(wire, "jobs")
            produce(wire, "jobs", batch(*[b"x"] * 40))
            initialize(share_wire, "g", jobs)
            member = ShareMember(share_wire, "g", "m1", jobs)
            member.fetch(max_records=20)
            for offset in chance.sample(range(20), 9):
                member.acknowledge({0: [(offset, offset, ACCEPT)]})
            found = figures(broker)
            requested = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic("jobs", partitions=[0])
            group = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup("g", topics=[requested])
            answer = wire.ask(
                m.DescribeShareGroupOffsetsRequest(groups=[group]), m.DescribeShareGroupOffsetsResponse, 1
            )
        wire.close()
    lag = answer.groups[0].topics[0].partitions[0].lag
    assert lag == 31
    assert found['penstock_share_group_lag_records_sum{group="g",topic="jobs"}'] == lag
    assert found['penstock_share_group_lag_records_max{group="g",topic="jobs"}'] == lag
    assert found['penstock_share_group_partition_lag_records{group="g",topic="jobs",partition="0"}'] == lag
    assert 0 <= found['penstock_share_group_acknowledgement_age_seconds{group="g",topic="jobs"}'] < 3600


def test_single_partitions_beyond_the_bound_are_counted_and_not_made() -> None:
    with Broker(CONFIGS | {"penstock.metrics.series.max": "4"}) as broker:
        broker.create_topic("orders", 10)
        wire = Wire(broker.port)
        broker._call(lambda: broker._running().parts.groups.runtime.ensure_topic())
        for index in range(10):
            commit(wire, "g", "orders", index, 0)
        found = figures(broker)
        wire.close()
    shown = [name for name in found if name.startswith("penstock_group_partition_lag_records{")]
    assert len(shown) == 4
    assert found['penstock_metrics_left_out_series{metric="penstock_group_partition_lag_records"}'] == 6


def test_one_partition_that_has_stalled_is_seen_beside_others_that_have_not() -> None:
    with Broker(CONFIGS) as broker:
        broker.create_topic("orders", 2)
        wire = Wire(broker.port)
        parts = broker._running().parts
        broker._call(lambda: parts.groups.runtime.ensure_topic())
        for index in range(2):
            produce(wire, "orders", batch(b"x"), partition=index)
            commit(wire, "g", "orders", index, 0)
        measuring = parts.measuring
        assert measuring is not None
        later_ms = parts.world.now_ms() + 600_000
        broker._call(measuring.note_arrivals)

        def look_later() -> dict[str, float]:
            """As if ten minutes had passed, in which the group committed for one of the partitions."""
            shard = parts.groups.find("g").shard
            offsets = shard.state.offsets.of_group("g")["orders"]
            offsets[1] = offsets[1]._replace(commit_timestamp_ms=later_ms)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(parts.world, "now_ms", lambda: later_ms)
                lines = parts.metrics.text().splitlines()
            return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if "{" in line)}

        found = broker._call(look_later)
        wire.close()
    labels = '{group="g",topic="orders"}'
    assert found[f"penstock_group_commit_age_seconds{labels}"] == 0, "the last commit, of whatever partition"
    assert 590 <= found[f"penstock_group_stalled_seconds{labels}"] <= 600
