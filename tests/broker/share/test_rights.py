"""Share fetches and acknowledgements of principals with and without rights, and rights that change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.security.acls import AclBinding
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, Client, GuardedBroker, rule

READ_GROUP = rule(ALICE, AclOperation.READ, AclResource.GROUP, "workers")
MEMBER = "0Yg5sC9YRHyoMLy0b1xYhQ"


@pytest.fixture
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        broker.find_coordinator("workers")
        yield broker


def read_topic(name: str = "jobs") -> AclBinding:
    return rule(ALICE, AclOperation.READ, AclResource.TOPIC, name)


def fetch_request(topic_id: bytes, epoch: int = 0, wait_ms: int = 0, **acknowledged: int) -> m.ShareFetchRequest:
    partition = m.ShareFetchRequest.FetchPartition(partition_index=0)
    if acknowledged:
        partition.acknowledgement_batches = [
            m.ShareFetchRequest.AcknowledgementBatch(
                first_offset=acknowledged["first"], last_offset=acknowledged["last"], acknowledge_types=[1]
            )
        ]
    return m.ShareFetchRequest(
        group_id="workers",
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=10,
        batch_size=10,
        topics=[m.ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )


def join(client: Client) -> None:
    beat = m.ShareGroupHeartbeatRequest(
        group_id="workers", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["jobs"]
    )
    assert client.ask(beat, m.ShareGroupHeartbeatResponse, 1).error_code == ErrorCode.NONE


def codes(answer: m.ShareFetchResponse) -> list[int]:
    return [partition.error_code for topic in answer.responses for partition in topic.partitions]


class TestFetching:
    def test_without_read_on_the_group_nothing_is_opened(self, broker: GuardedBroker) -> None:
        topic_id = broker.create_topic("jobs")
        broker.allow(read_topic())
        answer = broker.connect(ALICE).ask(fetch_request(topic_id), m.ShareFetchResponse, 2)
        assert (answer.error_code, answer.responses) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
        assert len(broker.memory.parts.share_groups.sessions) == 0

    def test_without_read_on_the_topic_its_partitions_are_refused(self, broker: GuardedBroker) -> None:
        topic_id = broker.create_topic("jobs")
        broker.write("jobs")
        broker.allow(READ_GROUP)
        answer = broker.connect(ALICE).ask(fetch_request(topic_id), m.ShareFetchResponse, 2)
        assert answer.error_code == ErrorCode.NONE
        assert codes(answer) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert not answer.responses[0].partitions[0].records

    def test_acknowledgements_of_a_topic_that_may_not_be_read_any_more_have_no_effect(
        self, broker: GuardedBroker
    ) -> None:
        topic_id = broker.create_topic("jobs")
        broker.allow(READ_GROUP, read_topic())
        alice = broker.connect(ALICE)
        join(alice)
        alice.ask(fetch_request(topic_id), m.ShareFetchResponse, 2)
        broker.write("jobs")
        first = alice.ask(fetch_request(topic_id, 1), m.ShareFetchResponse, 2)
        assert len(first.responses[0].partitions[0].acquired_records) == 1
        broker.forbid(read_topic())
        answer = alice.ask(fetch_request(topic_id, 2, first=0, last=0), m.ShareFetchResponse, 2)
        assert answer.responses[0].partitions[0].acknowledge_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        live = broker.memory.parts.share_groups.windows.find("workers", (topic_id, 0))
        assert live is not None
        assert live.core.start_offset == 0


class TestChangesWhileAFetchWaits:
    def test_a_lost_topic_is_answered_at_once_without_its_records(self, broker: GuardedBroker) -> None:
        topic_id = broker.create_topic("jobs")
        broker.allow(READ_GROUP, read_topic())
        alice = broker.connect(ALICE)
        join(alice)
        alice.post(fetch_request(topic_id, wait_ms=10_000), 2)
        assert not alice.has_answer
        broker.forbid(read_topic())
        broker.write("jobs")
        answer = alice.take(m.ShareFetchResponse)
        assert codes(answer) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert not answer.responses[0].partitions[0].records

    def test_a_lost_group_is_answered_at_once(self, broker: GuardedBroker) -> None:
        topic_id = broker.create_topic("jobs")
        broker.allow(READ_GROUP, read_topic())
        alice = broker.connect(ALICE)
        join(alice)
        alice.post(fetch_request(topic_id, wait_ms=10_000), 2)
        broker.forbid(READ_GROUP)
        answer = alice.take(m.ShareFetchResponse)
        assert (answer.error_code, answer.responses) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])

    def test_other_changes_leave_it_waiting(self, broker: GuardedBroker) -> None:
        topic_id = broker.create_topic("jobs")
        broker.allow(READ_GROUP, read_topic())
        alice = broker.connect(ALICE)
        join(alice)
        alice.post(fetch_request(topic_id, wait_ms=10_000), 2)
        broker.allow(read_topic("others"))
        assert not alice.has_answer
        broker.write("jobs")
        assert codes(alice.take(m.ShareFetchResponse)) == [ErrorCode.NONE]
