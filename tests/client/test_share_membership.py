"""A member of a share group and its coordinator; the coordinator is scripted where a real one would not misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.client import Admin
from penstock.client.cluster import Cluster
from penstock.client.config import ShareConsumerConfig
from penstock.client.metrics import Metrics
from penstock.client.share_membership import ShareMembership
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from tests.client.scripted_broker import TOPIC_ID, ScriptedCluster, scripted_cluster


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# With a real coordinator


async def test_members_join_get_partitions_and_leave(
    bootstrap: str, cluster: Cluster, admin: Admin, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("share")
    config = ShareConsumerConfig(bootstrap_servers=bootstrap, group_id=group)
    woken = asyncio.Event()
    one = ShareMembership(cluster, config, Metrics("one"), woken.set)
    two = ShareMembership(cluster, config, Metrics("two"), woken.set)
    for member in (one, two):
        member.last_poll = asyncio.get_running_loop().time()
        member.subscribe({wide_topic})
        member.ensure_started()
    try:
        await until(lambda: len(one.assigned | two.assigned) == 4)
        assert woken.is_set()
        described = await admin.describe_group(group)
        assert {member.member_id for member in described.members} == {one.member_id, two.member_id}
    finally:
        await one.leave()
    described = await admin.describe_group(group)
    assert [member.member_id for member in described.members] == [two.member_id]
    assert one.assigned == set()
    await two.leave()
    try:
        assert (await admin.describe_group(group)).members == []
    except GroupIdNotFound:  # nothing is left of a group that never committed anything
        pass


# With a scripted one


class Coordinator:
    """Agrees to everything, in member epoch 1, 2, … and hands out partition 0, unless told otherwise."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.beats: list[m.ShareGroupHeartbeatRequest] = []
        self.lookups = 0
        self.errors: list[int] = []
        self.assigned = [0]
        self.interval_ms = 20
        broker = scripted.brokers[0]
        broker.answers[m.FindCoordinatorRequest] = self._find
        broker.answers[m.ShareGroupHeartbeatRequest] = self._beat

    def _find(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.FindCoordinatorRequest)
        self.lookups += 1
        coordinator = m.FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="127.0.0.1", port=1)
        return m.FindCoordinatorResponse(coordinators=[coordinator])

    def _beat(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.ShareGroupHeartbeatRequest)
        self.beats.append(request)
        response = m.ShareGroupHeartbeatResponse
        error = self.errors.pop(0) if self.errors else 0
        if error:
            return response(error_code=error, error_message=None)
        mine = response.TopicPartitions(topic_id=TOPIC_ID, partitions=list(self.assigned))
        return response(
            member_id=request.member_id,
            member_epoch=request.member_epoch + 1,
            heartbeat_interval_ms=self.interval_ms,
            assignment=response.Assignment(topic_partitions=[mine]),
        )

    @property
    def epochs(self) -> list[int]:
        return [beat.member_epoch for beat in self.beats]


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster() as it:
        yield it


@pytest.fixture
def coordinator(scripted: ScriptedCluster) -> Coordinator:
    return Coordinator(scripted)


@pytest.fixture
async def member(scripted: ScriptedCluster, coordinator: Coordinator) -> AsyncIterator[ShareMembership]:
    config = ShareConsumerConfig(
        bootstrap_servers=scripted.bootstrap_servers,
        group_id="g",
        client_rack="here",
        retry_backoff_ms=5,
        retry_backoff_max_ms=20,
        max_poll_interval_ms=60_000,
    )
    async with Cluster(config) as cluster:
        it = ShareMembership(cluster, config, Metrics("me"), lambda: None)
        it.last_poll = asyncio.get_running_loop().time()
        it.subscribe({"t"})
        yield it
        await it.leave()


async def test_topics_are_named_when_joining_and_when_they_change(
    member: ShareMembership, coordinator: Coordinator
) -> None:
    member.ensure_started()
    await until(lambda: len(coordinator.beats) >= 3)
    joining, *others = coordinator.beats
    assert (joining.member_epoch, joining.subscribed_topic_names, joining.rack_id) == (0, ["t"], "here")
    assert {(beat.subscribed_topic_names is None, beat.rack_id) for beat in others} == {(True, None)}
    assert member.assigned == {(TOPIC_ID, 0)}
    coordinator.interval_ms = 3_600_000
    seen = len(coordinator.beats)
    await until(lambda: len(coordinator.beats) > seen)  # has heard of the longer interval, and sleeps
    member.subscribe({"u", "t"})  # wakes it
    await until(lambda: coordinator.beats[-1].subscribed_topic_names == ["t", "u"])


async def test_an_assignment_that_changes_replaces_the_old_one(
    member: ShareMembership, coordinator: Coordinator
) -> None:
    member.ensure_started()
    await until(lambda: member.assigned)
    coordinator.assigned = [1, 2]
    await until(lambda: member.assigned == {(TOPIC_ID, 1), (TOPIC_ID, 2)})
    assert member.error is None


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
async def test_a_member_that_was_thrown_out_joins_again_with_all_it_wants(
    member: ShareMembership, coordinator: Coordinator, code: ErrorCode
) -> None:
    member.ensure_started()
    await until(lambda: member.assigned)
    coordinator.errors.append(code)
    await until(lambda: coordinator.epochs.count(0) == 2)
    again = coordinator.beats[len(coordinator.epochs) - 1 - coordinator.epochs[::-1].index(0)]
    assert again.subscribed_topic_names == ["t"]
    assert {beat.member_id for beat in coordinator.beats} == {member.member_id}
    await until(lambda: member.assigned)
    assert member.error is None


async def test_a_coordinator_that_moved_is_looked_up_again(member: ShareMembership, coordinator: Coordinator) -> None:
    coordinator.errors += [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    member.ensure_started()
    await until(lambda: member.assigned)
    assert coordinator.lookups == 2
    assert coordinator.epochs[:3] == [0, 0, 0]


async def test_a_broker_that_hangs_up_hears_the_whole_subscription_again(
    scripted: ScriptedCluster, member: ShareMembership, coordinator: Coordinator
) -> None:
    member.ensure_started()
    await until(lambda: member.assigned)
    broker = scripted.brokers[0]
    answer = broker.answers[m.ShareGroupHeartbeatRequest]
    broker.answers[m.ShareGroupHeartbeatRequest] = broker.hang_up
    await until(lambda: broker.hung_up)
    coordinator.beats.clear()
    broker.answers[m.ShareGroupHeartbeatRequest] = answer
    await until(lambda: coordinator.beats)
    assert coordinator.beats[0].member_epoch > 0
    assert coordinator.beats[0].subscribed_topic_names == ["t"]


async def test_a_topic_that_may_not_be_read_is_told_and_heartbeats_go_on(
    member: ShareMembership, coordinator: Coordinator
) -> None:
    coordinator.errors.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    member.ensure_started()
    await until(lambda: member.assigned)
    assert isinstance(member.error, TopicAuthorizationFailed)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed, "share group 'g'"),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedVersion, "share groups switched off"),
    ],
)
async def test_a_refusal_for_good_ends_the_heartbeats_until_somebody_tries_again(
    member: ShareMembership, coordinator: Coordinator, code: ErrorCode, error: type[Exception], words: str
) -> None:
    coordinator.errors.append(code)
    member.ensure_started()
    await until(lambda: member.error is not None)
    assert isinstance(member.error, error)
    assert words in str(member.error)
    await asyncio.sleep(0.1)  # five intervals
    assert len(coordinator.beats) == 1
    member.ensure_started()
    await until(lambda: member.assigned)


async def test_a_program_that_stops_polling_gives_its_place_up_and_gets_it_back(
    member: ShareMembership, coordinator: Coordinator
) -> None:
    member.ensure_started()
    await until(lambda: member.assigned)
    member.last_poll -= 61
    await until(lambda: coordinator.epochs[-1] == -1)
    await until(lambda: not member.assigned)
    member.last_poll = asyncio.get_running_loop().time()
    member.ensure_started()
    await until(lambda: member.assigned)
    assert coordinator.epochs[coordinator.epochs.index(-1) + 1] == 0


async def test_leaving_says_so_once_and_not_at_all_without_having_joined(
    member: ShareMembership, coordinator: Coordinator
) -> None:
    await member.leave()
    assert coordinator.beats == []
    member.ensure_started()
    await until(lambda: member.assigned)
    await member.leave()
    await member.leave()
    assert coordinator.epochs.count(-1) == 1
    assert coordinator.epochs[-1] == -1
    assert member.assigned == set()
