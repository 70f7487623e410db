"""The broker's lag is what the requests of Kafka's tools add up to, in a random run."""

from __future__ import annotations

import random

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
    asked = request.ListOffsetsTopic(topic, partitions=[request.ListOffsetsPartition(partition, timestamp=-1)])
    return wire.ask(request(topics=[asked]), m.ListOffsetsResponse, 7).topics[0].partitions[0].offset


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
            asked = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic("jobs", partitions=[0])
            group = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup("g", topics=[asked])
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
