"""Requests of which one part is allowed and another is not: each part is answered by itself, as Kafka does."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.groups.consumer.group import ConsumerGroup
from penstock.records.builder import build_batch
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, Client, GuardedBroker, produce_request, rule

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResource.TOPIC,
    AclResource.GROUP,
    AclResource.CLUSTER,
    AclResource.TRANSACTIONAL_ID,
)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MEMBER = "0Yg5sC9YRHyoMLy0b1xYhQ"


@pytest.fixture
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        broker.create_topic("mine")
        broker.create_topic("theirs")
        yield broker


def allow(broker: GuardedBroker, operation: AclOperation, kind: AclResource = TOPIC, name: str = "mine") -> None:
    broker.allow(rule(ALICE, operation, kind, name))


def fetch_request(*topics: str, wait_ms: int = 0) -> m.FetchRequest:
    return m.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            m.FetchRequest.FetchTopic(
                topic=topic,
                partitions=[m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
            for topic in topics
        ],
    )


def codes_of(answer: m.FetchResponse) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}


class TestProduce:
    def test_writes_what_may_be_written_and_refuses_the_rest(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.WRITE)
        request = produce_request("mine")
        request.topic_data += produce_request("theirs").topic_data + produce_request("absent").topic_data
        answer = broker.connect(ALICE).ask(request, m.ProduceResponse, 12)
        codes = {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}
        assert codes == {"mine": ErrorCode.NONE, "theirs": DENIED, "absent": DENIED}
        assert broker.memory.parts.cluster.topic("theirs").hosted(0).log.log_end_offset == 0

    def test_by_id_as_by_name(self, broker: GuardedBroker) -> None:
        request = produce_request("theirs")
        request.topic_data[0].topic_id = broker.memory.parts.cluster.topic("theirs").topic_id
        request.topic_data[0].name = ""
        answer = broker.connect(ALICE).ask(request, m.ProduceResponse, 13)
        assert answer.responses[0].partition_responses[0].error_code == DENIED

    def test_without_answers_closes_the_connection(self, broker: GuardedBroker) -> None:
        request = produce_request("theirs")
        request.acks = 0
        alice = broker.connect(ALICE)
        alice.post(request, 12)
        assert alice.wire.connection.is_closed

    def test_in_a_transaction_needs_its_id_and_adds_no_topic_that_may_not_be_written(
        self, broker: GuardedBroker
    ) -> None:
        broker.find_coordinator("txn", 1)
        allow(broker, AclOperation.WRITE)
        alice = broker.connect(ALICE)
        init = m.InitProducerIdRequest(transactional_id="txn", transaction_timeout_ms=60_000)
        producer = broker.root.ask(init, m.InitProducerIdResponse, 5)

        def write() -> m.ProduceResponse:
            request = produce_request("mine")
            request.topic_data += produce_request("theirs").topic_data
            request.transactional_id = "txn"
            for topic in request.topic_data:
                topic.partition_data[0].records = build_batch(
                    [(1, None, b"v", [])],
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    base_sequence=0,
                    transactional=True,
                )
            return alice.ask(request, m.ProduceResponse, 12)

        refused = {
            (topic.partition_responses[0].error_code, topic.partition_responses[0].error_message)
            for topic in write().responses
        }
        assert refused == {(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)}
        allow(broker, AclOperation.WRITE, TRANSACTIONAL_ID, "txn")
        codes = {topic.name: topic.partition_responses[0].error_code for topic in write().responses}
        assert codes == {"mine": ErrorCode.NONE, "theirs": DENIED}
        described = broker.root.ask(
            m.DescribeTransactionsRequest(transactional_ids=["txn"]), m.DescribeTransactionsResponse, 0
        )
        assert [topic.topic for topic in described.transaction_states[0].topics] == ["mine"]


class TestInitProducerId:
    @pytest.mark.parametrize(
        ("operation", "kind", "name"),
        [
            (AclOperation.WRITE, TOPIC, "anything"),
            (AclOperation.IDEMPOTENT_WRITE, CLUSTER, "kafka-cluster"),
        ],
        ids=["WRITE on some topic", "IDEMPOTENT_WRITE"],
    )
    def test_of_an_idempotent_producer(
        self, broker: GuardedBroker, operation: AclOperation, kind: AclResource, name: str
    ) -> None:
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        alice = broker.connect(ALICE)
        refused = alice.ask(request, m.InitProducerIdResponse, 5)
        assert (refused.error_code, refused.producer_id) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
        allow(broker, operation, kind, name)
        assert alice.ask(request, m.InitProducerIdResponse, 5).error_code == ErrorCode.NONE


class TestFetch:
    def test_reads_what_may_be_read_and_refuses_the_rest(self, broker: GuardedBroker) -> None:
        broker.write("mine")
        broker.write("theirs")
        allow(broker, AclOperation.READ)
        answer = broker.connect(ALICE).ask(fetch_request("theirs", "mine", "absent"), m.FetchResponse, 12)
        assert codes_of(answer) == {"theirs": DENIED, "mine": ErrorCode.NONE, "absent": DENIED}
        assert [bool(topic.partitions[0].records) for topic in answer.responses] == [False, True, False]

    def test_that_waits_is_answered_without_data_when_its_right_is_taken_away(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.READ)
        alice = broker.connect(ALICE)
        alice.post(fetch_request("mine", wait_ms=10_000), 12)
        assert not alice.has_answer
        broker.forbid(rule(ALICE, AclOperation.READ, TOPIC, "mine"))
        broker.write("mine")
        answer = alice.take(m.FetchResponse)
        assert codes_of(answer) == {"mine": DENIED}
        assert not answer.responses[0].partitions[0].records

    def test_that_waits_goes_on_when_other_rules_change(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.READ)
        alice = broker.connect(ALICE)
        alice.post(fetch_request("mine", wait_ms=10_000), 12)
        allow(broker, AclOperation.READ, GROUP, "g")
        assert not alice.has_answer
        broker.write("mine")
        assert codes_of(alice.take(m.FetchResponse)) == {"mine": ErrorCode.NONE}

    def test_in_a_session_is_refused_from_the_next_request_on(self, broker: GuardedBroker) -> None:
        broker.write("mine")
        allow(broker, AclOperation.READ)
        alice = broker.connect(ALICE)
        opening = fetch_request("mine")
        opening.session_epoch = 0
        opened = alice.ask(opening, m.FetchResponse, 12)
        broker.forbid(rule(ALICE, AclOperation.READ, TOPIC, "mine"))
        following = m.FetchRequest(session_id=opened.session_id, session_epoch=1, min_bytes=1, max_bytes=1 << 20)
        answer = alice.ask(following, m.FetchResponse, 12)
        assert codes_of(answer) == {"mine": DENIED}
        assert not answer.responses[0].partitions[0].records

    def test_of_a_follower_needs_cluster_action(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.READ)
        request = fetch_request("mine")
        request.replica_id = 2
        answer = broker.connect(ALICE).ask(request, m.FetchResponse, 12)
        assert codes_of(answer) == {"mine": DENIED}


class TestMetadata:
    def ask(self, client: Client, *topics: str, creates: bool = False) -> dict[str | None, tuple[int, int]]:
        request = m.MetadataRequest(
            topics=[m.MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=creates,
            include_topic_authorized_operations=True,
        )
        answer = client.ask(request, m.MetadataResponse, 12)
        return {topic.name: (topic.error_code, topic.topic_authorized_operations) for topic in answer.topics}

    def test_shows_what_may_be_described_with_what_may_be_done(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.READ)
        bits = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
        assert self.ask(broker.connect(ALICE), "mine", "theirs", "absent") == {
            "mine": (ErrorCode.NONE, bits),
            "theirs": (DENIED, -(2**31)),
            "absent": (DENIED, -(2**31)),
        }

    @pytest.mark.parametrize(
        ("kind", "name"), [(CLUSTER, "kafka-cluster"), (TOPIC, "new")], ids=["on the cluster", "on the topic"]
    )
    def test_creates_only_with_create(self, broker: GuardedBroker, kind: AclResource, name: str) -> None:
        allow(broker, AclOperation.DESCRIBE, name="new")
        alice = broker.connect(ALICE)
        assert self.ask(alice, "new", creates=True)["new"][0] == DENIED
        assert broker.memory.parts.cluster.find_topic("new") is None
        allow(broker, AclOperation.CREATE, kind, name)
        assert self.ask(alice, "new", creates=True)["new"][0] == ErrorCode.NONE


class TestTopics:
    def test_creating_tells_configs_to_those_who_may_see_them(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.CREATE, name="new")
        topics = [
            m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in ("new", "other")
        ]
        answer = broker.connect(ALICE).ask(m.CreateTopicsRequest(topics=topics), m.CreateTopicsResponse, 7)
        new, other = answer.topics
        assert (new.error_code, new.topic_config_error_code, new.configs) == (ErrorCode.NONE, DENIED, [])
        assert (other.error_code, other.error_message) == (DENIED, "Authorization failed.")

    def test_deleting_by_id_names_the_topic_to_those_who_may_see_it(self, broker: GuardedBroker) -> None:
        allow(broker, AclOperation.DESCRIBE)
        cluster = broker.memory.parts.cluster
        states = [
            m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=cluster.topic(name).topic_id)
            for name in ("mine", "theirs")
        ]
        answer = broker.connect(ALICE).ask(m.DeleteTopicsRequest(topics=states), m.DeleteTopicsResponse, 6)
        assert [(each.name, each.error_code) for each in answer.responses] == [("mine", DENIED), (None, DENIED)]
        assert cluster.find_topic("theirs") is not None


class TestGroups:
    def commit(self, broker: GuardedBroker) -> None:
        broker.find_coordinator("g")
        topics = [
            m.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                partitions=[m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
            )
            for name in ("mine", "theirs")
        ]
        request = m.OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
        broker.root.ask(request, m.OffsetCommitResponse, 9)

    def test_offsets_of_topics_that_may_not_be_described_are_left_out_or_refused(self, broker: GuardedBroker) -> None:
        self.commit(broker)
        allow(broker, AclOperation.DESCRIBE, GROUP, "g")
        allow(broker, AclOperation.DESCRIBE)
        alice = broker.connect(ALICE)
        everything = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
        answer = alice.ask(m.OffsetFetchRequest(groups=[everything]), m.OffsetFetchResponse, 9)
        assert [topic.name for topic in answer.groups[0].topics] == ["mine"]
        named = [
            m.OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
            for name in ("theirs", "mine")
        ]
        requested = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=named)
        answer = alice.ask(m.OffsetFetchRequest(groups=[requested]), m.OffsetFetchResponse, 9)
        found = {topic.name: topic.partitions[0] for topic in answer.groups[0].topics}
        assert (found["mine"].committed_offset, found["mine"].error_code) == (7, ErrorCode.NONE)
        assert (found["theirs"].committed_offset, found["theirs"].error_code) == (-1, DENIED)

    def test_a_list_shows_the_groups_that_may_be_described(self, broker: GuardedBroker) -> None:
        self.commit(broker)
        alice = broker.connect(ALICE)
        assert alice.ask(m.ListGroupsRequest(), m.ListGroupsResponse, 5).groups == []
        allow(broker, AclOperation.READ, GROUP, "g")
        assert [each.group_id for each in alice.ask(m.ListGroupsRequest(), m.ListGroupsResponse, 5).groups] == ["g"]

    def beat(self, client: Client, epoch: int = 0, **subscription: object) -> m.ConsumerGroupHeartbeatResponse:
        request = m.ConsumerGroupHeartbeatRequest(group_id="g", member_id=MEMBER, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.topic_partitions = []
        for name, value in subscription.items():
            setattr(request, name, value)
        return client.ask(request, m.ConsumerGroupHeartbeatResponse, 1)

    def test_a_pattern_matches_what_the_member_may_describe_also_after_rules_have_changed(
        self, broker: GuardedBroker
    ) -> None:
        broker.find_coordinator("g")
        allow(broker, AclOperation.READ, GROUP, "g")
        allow(broker, AclOperation.DESCRIBE)
        alice = broker.connect(ALICE)
        assert self.beat(alice, subscribed_topic_regex=".*").error_code == ErrorCode.NONE
        assert self.matched(broker, alice) == {"mine"}
        allow(broker, AclOperation.DESCRIBE, name="theirs")
        assert self.matched(broker, alice) == {"mine", "theirs"}

    def matched(self, broker: GuardedBroker, client: Client) -> frozenset[str]:
        """The topics that the group's pattern matches after the next heartbeats."""
        group = broker.memory.parts.groups.find("g").shard.state.groups["g"]
        assert isinstance(group, ConsumerGroup)
        for _ in range(3):
            self.beat(client, group.members[MEMBER].member_epoch)
            broker.settle()
        return group.regexes[".*"].topics

    def test_a_member_names_topics_that_it_may_describe(self, broker: GuardedBroker) -> None:
        broker.find_coordinator("g")
        allow(broker, AclOperation.READ, GROUP, "g")
        allow(broker, AclOperation.DESCRIBE)
        answer = self.beat(broker.connect(ALICE), subscribed_topic_names=["mine", "theirs"])
        assert (answer.error_code, answer.error_message) == (DENIED, None)

    def test_a_group_with_a_topic_that_may_not_be_described_is_not_shown(self, broker: GuardedBroker) -> None:
        broker.find_coordinator("g")
        assert self.beat(broker.root, subscribed_topic_names=["theirs"]).error_code == ErrorCode.NONE
        allow(broker, AclOperation.DESCRIBE, GROUP, "g")
        request = m.ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
        (group,) = broker.connect(ALICE).ask(request, m.ConsumerGroupDescribeResponse, 1).groups
        assert (group.error_code, group.members) == (DENIED, [])
        allow(broker, AclOperation.DESCRIBE, name="theirs")
        (group,) = broker.connect(ALICE).ask(request, m.ConsumerGroupDescribeResponse, 1).groups
        assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)
        assert group.authorized_operations == 1 << AclOperation.DESCRIBE


class TestDenials:
    def test_are_logged_with_who_what_and_why(self, broker: GuardedBroker, caplog: pytest.LogCaptureFixture) -> None:
        broker.allow(
            rule("User:*", AclOperation.ALL, TOPIC, "th", permission=AclPermission.DENY, pattern=PatternType.PREFIXED)
        )
        with caplog.at_level(logging.WARNING, "penstock.authorizer"):
            broker.connect(ALICE).ask(fetch_request("theirs"), m.FetchResponse, 12)
        assert [record.getMessage() for record in caplog.records if record.name == "penstock.authorizer"] == [
            "denied 'User:alice' from memory: READ on TOPIC 'theirs', by the rule DENY ALL for 'User:*' from '*' about "
            "names that begin with 'th'"
        ]

    def test_are_escaped_cut_and_counted(self, broker: GuardedBroker, caplog: pytest.LogCaptureFixture) -> None:
        alice = broker.connect(ALICE)
        with caplog.at_level(logging.WARNING, "penstock.authorizer"):
            for number in range(50):
                alice.ask(m.HeartbeatRequest(group_id=f"{number}\n" + "x" * 5000), m.HeartbeatResponse, 4)
        assert len(caplog.messages) == 20
        assert all("\n" not in message and len(message) < 500 for message in caplog.messages)
