"""Kafka's own command-line tools administer a cluster of several brokers: they place, elect, reassign and configure."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.wire import messages as m
from tests.broker.raw import RawClient
from tests.cluster.members import SECONDS, Members
from tests.java.test_kafka_tools import CLUSTER, CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, GROUPS, TOPICS, run
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPIC = "orders"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Members]:
    """Nobody takes over from a broker that stands still for less than a minute."""
    folder = tmp_path_factory.mktemp("cluster")
    with Members(folder, postgres, lease_ms=60_000, auto_leader_rebalance_enable="false") as members:
        yield members


class Tools:
    """A topic of three partitions and three replicas, and the tools at work on it."""

    def __init__(self, members: Members, folder: Path) -> None:
        self.members = members
        self.at = ("--bootstrap-server", members.bootstrap)
        self._folder = folder
        self.topic = f"{TOPIC}-{folder.name}"
        run(TOPICS, *self.at, "--create", "--topic", self.topic, "--partitions", "3", "--replication-factor", "3")

    def described(self) -> dict[int, tuple[int, list[int]]]:
        """Leader and replicas of each partition."""
        text = run(TOPICS, *self.at, "--describe", "--topic", self.topic)
        rows = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s", text)
        return {
            int(index): (int(leader), [int(each) for each in replicas.split(",")]) for index, leader, replicas in rows
        }

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return str(path)

    def plan(self, *replicas: list[int]) -> str:
        """A file that names replicas for the partitions from 0 on."""
        rows = [{"topic": self.topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
        return self.file("plan.json", {"version": 1, "partitions": rows})


@pytest.fixture
def tools(members: Members, tmp_path: Path) -> Tools:
    return Tools(members, tmp_path)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_leaders_are_spread_and_every_broker_is_a_replica(tools: Tools) -> None:
    found = tools.described()
    assert sorted(leader for leader, _ in found.values()) == [1, 2, 3]
    assert [sorted(replicas) for _, replicas in found.values()] == [[1, 2, 3]] * 3
    endpoints = run(CLUSTER, "list-endpoints", *tools.at)
    assert all(str(broker.port) in endpoints for broker in tools.members.brokers.values())


def test_a_reassignment_is_executed_verified_and_followed_by_an_election(tools: Tools) -> None:
    wanted = [[3, 1], [1, 2], [2, 3]]
    plan = tools.plan(*wanted)
    assert "Successfully started partition reassignments" in run(
        REASSIGNMENT, *tools.at, "--reassignment-json-file", plan, "--execute"
    )
    until(lambda: [replicas for _, replicas in tools.described().values()] == wanted)
    verified = run(REASSIGNMENT, *tools.at, "--reassignment-json-file", plan, "--verify")
    assert verified.count("is completed") == 3, verified
    assert "No partition reassignments found" in run(REASSIGNMENT, *tools.at, "--list")
    rows = [{"topic": tools.topic, "partition": index} for index in range(3)]
    chosen = tools.file("election.json", {"partitions": rows})
    preferred = {index: replicas[0] for index, replicas in enumerate(wanted)}
    needed = sorted(index for index, (leader, _) in tools.described().items() if leader != preferred[index])
    elected = run(ELECTION, *tools.at, "--election-type", "preferred", "--path-to-json-file", chosen)
    if needed:
        moved = re.search(r"Successfully completed leader election \(PREFERRED\) for partitions (.*)", elected)
        assert moved is not None, elected
        assert sorted(int(each.rpartition("-")[2]) for each in moved[1].split(", ")) == needed
    assert {index: leader for index, (leader, _) in tools.described().items()} == preferred


def test_a_reassignment_that_waits_for_its_leader_is_listed_and_cancelled(tools: Tools) -> None:
    """A leader that stands still does not hand over. (`--execute` would ask it for its log folders first.)"""
    before = tools.described()
    index = next(index for index, (leader, _) in before.items() if leader == 3)
    rows = [{"topic": tools.topic, "partition": index, "replicas": [1, 2]}]
    plan = tools.file("plan.json", {"version": 1, "partitions": rows})
    others = ("--bootstrap-server", ",".join(tools.members.brokers[each].address for each in (1, 2)))
    tools.members.signal(tools.members.brokers[3], signal.SIGSTOP)
    try:
        with RawClient(tools.members.brokers[1].port) as client:
            request = m.AlterPartitionReassignmentsRequest
            wanted = request.ReassignablePartition(partition_index=index, replicas=[1, 2])
            requested = request(topics=[request.ReassignableTopic(name=tools.topic, partitions=[wanted])])
            assert client.ask(requested, m.AlterPartitionReassignmentsResponse, 0).error_code == 0
        listed = run(REASSIGNMENT, *others, "--list")
        assert re.search(rf"{tools.topic}-{index}: replicas: [\d,]+\. removing: 3\.", listed), listed
        cancel = ("--reassignment-json-file", plan, "--cancel", "--preserve-throttles")
        cancelled = run(REASSIGNMENT, *others, *cancel)
        assert "Successfully cancelled partition reassignment" in cancelled
    finally:
        tools.members.signal(tools.members.brokers[3], signal.SIGCONT)
    assert tools.described() == before


def test_settings_records_and_groups_are_the_same_through_every_broker(tools: Tools) -> None:
    first, second, third = (("--bootstrap-server", each.address) for each in tools.members.brokers.values())
    entity = ("--entity-type", "topics", "--entity-name", tools.topic)
    run(CONFIGS, *first, *entity, "--alter", "--add-config", "retention.ms=12345")
    assert "retention.ms=12345" in run(CONFIGS, *third, *entity, "--describe")
    run(CONSOLE_PRODUCER, *second, "--topic", tools.topic, stdin="a\nb\nc\n")
    group = ("--group", f"g-{tools.topic}")
    read = run(CONSOLE_CONSUMER, *third, "--topic", tools.topic, *group, "--from-beginning", "--max-messages", "3")
    assert sorted(read.split()) == ["a", "b", "c"]
    described = run(GROUPS, *first, "--describe", *group)
    lags = re.findall(rf"{tools.topic}\s+\d+\s+\d+\s+\d+\s+(\d+)", described)
    assert lags
    assert set(lags) == {"0"}
