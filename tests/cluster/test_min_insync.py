"""How many brokers have to be there for `acks=all`: what min.insync.replicas says, and never more than replicas."""

from __future__ import annotations

from pathlib import Path

from penstock.client import NewTopic
from penstock.client.sync import Admin
from penstock.records.builder import build_batch
from penstock.wire.errors import ErrorCode
from tests.broker.process import BrokerProcess
from tests.broker.raw import produce_error
from tests.cluster.members import Members, until
from tests.postgres import PostgresServer

ONE, BOTH = "one-replica", "two-replicas"
BATCH = build_batch([(0, None, b"value", [])])


def test_no_more_brokers_are_required_than_a_partition_has_replicas(tmp_path: Path, postgres: PostgresServer) -> None:
    with Members(tmp_path, postgres, count=2) as members:
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            for name, replicas in ((ONE, 1), (BOTH, 2)):
                configs = {"min.insync.replicas": "3"}
                admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=replicas, configs=configs)])
        first, second = members.brokers.values()
        assert written(members, ONE) == written(members, BOTH) == ErrorCode.NONE
        second.kill()
        for topic in (ONE, BOTH):
            members.until_led_by_others(topic, 2)
        until(lambda: [error for error in [code(first, BOTH)] if error == ErrorCode.NOT_ENOUGH_REPLICAS])
        assert code(first, ONE) == ErrorCode.NONE


def written(members: Members, topic: str) -> int:
    """By the broker that leads, as soon as one does."""
    [leader] = until(lambda: [node_id for node_id in members.leaders(topic) if node_id > 0])
    return code(members.brokers[leader], topic)


def code(broker: BrokerProcess, topic: str) -> int:
    return produce_error(broker.port, topic, BATCH, acks=-1)
