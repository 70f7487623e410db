"""Nothing that an API does is reachable without its check: a walk over all of them by people without rights.

Every request is sent to a broker that has what it names and to one that has nothing. The answers are the same, field by
field, so that nobody learns what exists; and the full broker is afterwards what it was before.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.handlers.table import SERVED
from penstock.catalog.contract import CredentialRow, replaced_by
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ROOT, Client, GuardedBroker, rule
from tests.broker.requests_of_every_api import (
    GROUP,
    MEMBER,
    SHARE_GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    Sent,
    every_request,
)
from tests.wire.records_field import records_of

RIGHTLESS = ["User:ANONYMOUS", "User:mallory"]
BEFORE_ANYBODY_IS_KNOWN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
REFUSED_TO_EVERYBODY = {
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
ABOUT_THE_CLIENT_ITSELF = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
WALKED = [key for key in SERVED if key not in BEFORE_ANYBODY_IS_KNOWN | ABOUT_THE_CLIENT_ITSELF]


class World:
    """A broker with one of everything, and one with nothing."""

    def __init__(self, full: GuardedBroker, empty: GuardedBroker) -> None:
        self.full = full
        self.empty = empty
        self.topic_id, self.producer_id = _fill(full)
        self.requests = every_request(self.topic_id, self.producer_id)

    def state(self) -> dict[str, object]:
        """What somebody could have changed."""
        parts, catalog, root = self.full.memory.parts, self.full.memory.catalog, self.full.root
        return {
            "topics": [(topic.name, topic.configs, topic.partition_count) for topic in parts.cluster.topics()],
            "logs": {
                (topic.name, partition.index): (partition.log.log_start_offset, partition.log.log_end_offset)
                for topic in parts.cluster.topics()
                for partition in topic.hosted_partitions()
            },
            "configs": [
                parts.configs.broker_overrides(""),
                {group: parts.configs.group_overrides(group) for group in parts.configs.group_names()},
                {name: parts.configs.client_metrics_overrides(name) for name in parts.configs.client_metrics_names()},
            ],
            "acls": catalog.acls(),
            "credentials": catalog.credentials(),
            "quotas": catalog.quotas(),
            "features": catalog.features(),
            "groups": repr(root.ask(m.ListGroupsRequest(), m.ListGroupsResponse, 5)),
            "transactions": repr(
                root.ask(
                    m.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]),
                    m.DescribeTransactionsResponse,
                    0,
                )
            ),
            "share sessions": len(parts.share_groups.sessions),
        }


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with GuardedBroker() as full, GuardedBroker() as empty:
        yield World(full, empty)


def _fill(broker: GuardedBroker) -> tuple[bytes, int]:
    root = broker.root
    topic_id = broker.create_topic(TOPIC, 2)
    broker.write(TOPIC, [b"secret"])
    broker.find_coordinator(GROUP)
    broker.find_coordinator(TRANSACTIONAL_ID, 1)
    requests = every_request(topic_id, -1)
    _done(root, requests[ApiKey.OFFSET_COMMIT][0])
    _done(root, requests[ApiKey.INITIALIZE_SHARE_GROUP_STATE][0])
    beat = m.ShareGroupHeartbeatRequest(
        group_id=SHARE_GROUP, member_id=MEMBER, member_epoch=0, subscribed_topic_names=[TOPIC]
    )
    assert root.ask(beat, m.ShareGroupHeartbeatResponse, 1).error_code == ErrorCode.NONE
    (initialized, version), _ = requests[ApiKey.INIT_PRODUCER_ID]
    producer = root.ask(initialized, m.InitProducerIdResponse, version)
    assert producer.error_code == ErrorCode.NONE
    _done(root, every_request(topic_id, producer.producer_id)[ApiKey.ADD_PARTITIONS_TO_TXN][0])
    broker.memory.parts.configs.change_group(GROUP, replaced_by({"share.session.timeout.ms": "50000"}))
    broker.memory.parts.configs.change_client_metrics("metrics", replaced_by({"interval.ms": "70000"}))
    broker.memory.catalog.change_credentials([CredentialRow(USER, 1, 4096, b"salt", b"k" * 32, b"k" * 32)], [])
    broker.allow(rule("User:carol", 3, 2, TOPIC))  # type: ignore[arg-type]
    return topic_id, producer.producer_id


def _done(client: Client, sent: Sent) -> None:
    request, version = sent
    client.ask(request, m.Message, version)


def ask(client: Client, sent: Sent) -> str:
    """The answer as text, without what differs between any two brokers."""
    request, version = sent
    broker = client._broker
    answer = client.ask(request, m.Message, version)
    if isinstance(answer, m.FetchResponse | m.ShareFetchResponse):
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.records = records_of(partition)
    return repr(answer).replace(broker.memory.parts.cluster.cluster_id, "CLUSTER")


def test_there_is_a_request_of_every_api(world: World) -> None:
    assert set(world.requests) == set(WALKED)
    assert all(API_TABLE[key].min_version <= version for key, sent in world.requests.items() for _, version in sent)


@pytest.mark.parametrize("principal", RIGHTLESS)
@pytest.mark.parametrize("key", WALKED, ids=lambda key: key.name)
def test_somebody_without_rights_learns_nothing_and_changes_nothing(world: World, key: ApiKey, principal: str) -> None:
    before = world.state()
    for sent in world.requests[key]:
        there = ask(world.full.connect(principal), sent)
        assert there == ask(world.empty.connect(principal), sent)
        assert "secret" not in there
    world.full.settle()
    assert world.state() == before


@pytest.mark.parametrize("key", [key for key in WALKED if key not in REFUSED_TO_EVERYBODY], ids=lambda key: key.name)
def test_the_walk_would_notice_a_missing_check(key: ApiKey) -> None:
    """With all rights the same request is answered differently, or does something: the walk above cannot but fail."""
    with GuardedBroker() as full, GuardedBroker() as empty:
        world = World(full, empty)
        for sent in world.requests[key]:
            denied = ask(full.connect("User:mallory"), sent)
            before = world.state()
            allowed = ask(full.connect(ROOT), sent)
            full.settle()
            assert allowed != denied or world.state() != before
