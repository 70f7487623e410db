"""Whose rights count for dead letters: ALTER_CONFIGS on a group is neither READ nor WRITE on a topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.catalog.contract import replaced_by
from penstock.security.acls import AclBinding
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, Client, GuardedBroker, rule

WORKER = "User:worker"
MEMBER = "0Yg5sC9YRHyoMLy0b1xYhQ"
TOPIC_NAME, COPIES = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
AUTHORITY = "penstock.share.deadletterqueue.authority"

ALTER_GROUP = rule(ALICE, AclOperation.ALTER_CONFIGS, AclResource.GROUP, "workers")
READ_JOBS = rule(ALICE, AclOperation.READ, AclResource.TOPIC, "jobs")
WRITE_LETTERS = rule(ALICE, AclOperation.WRITE, AclResource.TOPIC, "dlq.jobs")


@pytest.fixture
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        broker.find_coordinator("workers")
        broker.create_topic("jobs")
        broker.memory.parts.topics.create("dlq.jobs", 1, {"errors.deadletterqueue.group.enable": "true"})
        broker.allow(
            rule(WORKER, AclOperation.READ, AclResource.GROUP, "workers"),
            rule(WORKER, AclOperation.READ, AclResource.TOPIC, "jobs"),
        )
        yield broker


def set_configs(client: Client, **configs: str) -> int:
    request = m.IncrementalAlterConfigsRequest(
        resources=[
            m.IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=ResourceType.GROUP,
                resource_name="workers",
                configs=[
                    m.IncrementalAlterConfigsRequest.AlterableConfig(name=name.replace("_", "."), value=value)
                    for name, value in configs.items()
                ],
            )
        ]
    )
    return client.ask(request, m.IncrementalAlterConfigsResponse, 1).responses[0].error_code


def name_topic(client: Client, name: str = "dlq.jobs") -> int:
    return set_configs(client, errors_deadletterqueue_topic_name=name, errors_deadletterqueue_copy_record_enable="true")


def reject_a_record(broker: GuardedBroker) -> None:
    """A worker reads the one record of `jobs` and rejects it."""
    topic = broker.memory.parts.cluster.topic("jobs")
    worker = broker.connect(WORKER)
    beat = m.ShareGroupHeartbeatRequest(
        group_id="workers", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["jobs"]
    )
    assert worker.ask(beat, m.ShareGroupHeartbeatResponse, 1).error_code == ErrorCode.NONE

    def fetch(epoch: int, rejected: bool = False) -> m.ShareFetchResponse.PartitionData | None:
        partition = m.ShareFetchRequest.FetchPartition(partition_index=0)
        if rejected:
            partition.acknowledgement_batches = [
                m.ShareFetchRequest.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[3])
            ]
        request = m.ShareFetchRequest(
            group_id="workers",
            member_id=MEMBER,
            share_session_epoch=epoch,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=[m.ShareFetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=[partition])],
        )
        answer = worker.ask(request, m.ShareFetchResponse, 2)
        return answer.responses[0].partitions[0] if answer.responses else None

    fetch(0)
    broker.write("jobs", [b"secret"])
    acquired = fetch(1)
    assert acquired is not None
    assert len(acquired.acquired_records) == 1
    rejected = fetch(2, rejected=True)
    assert rejected is not None
    assert rejected.acknowledge_error_code == ErrorCode.NONE
    broker.settle()


def letters(broker: GuardedBroker) -> int:
    return broker.memory.parts.cluster.topic("dlq.jobs").hosted(0).log.log_end_offset


class TestNamingTheTopic:
    def test_needs_write_on_it(self, broker: GuardedBroker) -> None:
        broker.allow(ALTER_GROUP)
        alice = broker.connect(ALICE)
        assert name_topic(alice) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert broker.memory.parts.configs.group_overrides("workers") == {}
        broker.allow(WRITE_LETTERS)
        assert name_topic(alice) == ErrorCode.NONE

    def test_that_the_broker_would_create_needs_create(self, broker: GuardedBroker) -> None:
        broker.memory.parts.configs.change_broker(
            "", replaced_by({"errors.deadletterqueue.auto.create.topics.enable": "true"})
        )
        broker.allow(ALTER_GROUP, rule(ALICE, AclOperation.WRITE, AclResource.TOPIC, "dlq.new"))
        alice = broker.connect(ALICE)
        assert name_topic(alice, "dlq.new") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        broker.allow(rule(ALICE, AclOperation.CREATE, AclResource.TOPIC, "dlq.new"))
        assert name_topic(alice, "dlq.new") == ErrorCode.NONE

    def test_is_not_needed_for_other_configs_and_keeps_the_authority(self, broker: GuardedBroker) -> None:
        assert name_topic(broker.root) == ErrorCode.NONE
        broker.allow(ALTER_GROUP)
        assert set_configs(broker.connect(ALICE), share_delivery_count_limit="3") == ErrorCode.NONE
        assert broker.memory.parts.configs.group_overrides("workers")[AUTHORITY] == "User:root from memory"

    def test_asking_for_copies_takes_the_authority_over(self, broker: GuardedBroker) -> None:
        assert set_configs(broker.root, errors_deadletterqueue_topic_name="dlq.jobs") == ErrorCode.NONE
        broker.allow(ALTER_GROUP)
        alice = broker.connect(ALICE)
        copies = {"errors_deadletterqueue_copy_record_enable": "true"}
        assert set_configs(alice, **copies) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        broker.allow(WRITE_LETTERS)
        assert set_configs(alice, **copies) == ErrorCode.NONE
        assert broker.memory.parts.configs.group_overrides("workers")[AUTHORITY] == f"{ALICE} from memory"

    def test_on_another_broker_a_moment_ago_keeps_the_authority(self, broker: GuardedBroker) -> None:
        root = {TOPIC_NAME: "dlq.jobs", COPIES: "true", AUTHORITY: "User:root from elsewhere"}
        broker.memory.parts.catalog.change_configs(ResourceType.GROUP, "workers", replaced_by(root))
        assert broker.memory.parts.configs.group_overrides("workers") == {}  # it has not heard of it
        broker.allow(ALTER_GROUP)
        assert set_configs(broker.connect(ALICE), share_delivery_count_limit="3") == ErrorCode.NONE
        found = broker.memory.parts.catalog.config_resources(ResourceType.GROUP)["workers"]
        assert found == {**root, "share.delivery.count.limit": "3"}

    def test_nobody_sets_the_authority(self, broker: GuardedBroker) -> None:
        authority = {"penstock_share_deadletterqueue_authority": "User:root from memory"}
        assert set_configs(broker.root, **authority) == ErrorCode.INVALID_CONFIG

    def test_taking_it_away_forgets_the_authority(self, broker: GuardedBroker) -> None:
        assert name_topic(broker.root) == ErrorCode.NONE
        assert set_configs(broker.root, errors_deadletterqueue_topic_name="") == ErrorCode.NONE
        assert AUTHORITY not in broker.memory.parts.configs.group_overrides("workers")


class TestWritingALetter:
    @pytest.mark.parametrize(
        ("rules", "written"),
        [((WRITE_LETTERS, READ_JOBS), 1), ((WRITE_LETTERS,), 0)],
        ids=["with READ on the record's topic", "without"],
    )
    def test_takes_the_rights_of_who_named_the_topic(
        self, broker: GuardedBroker, rules: tuple[AclBinding, ...], written: int
    ) -> None:
        broker.allow(ALTER_GROUP, *rules)
        assert name_topic(broker.connect(ALICE)) == ErrorCode.NONE
        reject_a_record(broker)
        assert letters(broker) == written

    @pytest.mark.parametrize("lost", [WRITE_LETTERS, READ_JOBS], ids=["WRITE", "READ"])
    def test_stops_when_they_lose_them(self, broker: GuardedBroker, lost: AclBinding) -> None:
        broker.allow(ALTER_GROUP, WRITE_LETTERS, READ_JOBS)
        assert name_topic(broker.connect(ALICE)) == ErrorCode.NONE
        broker.forbid(lost)
        reject_a_record(broker)
        assert letters(broker) == 0

    def test_does_not_happen_where_nobody_is_known_who_named_the_topic(self, broker: GuardedBroker) -> None:
        broker.memory.parts.configs.change_group("workers", replaced_by({TOPIC_NAME: "dlq.jobs", COPIES: "true"}))
        reject_a_record(broker)
        assert letters(broker) == 0
