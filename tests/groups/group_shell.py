"""A shell for a group coordinator in memory: an append-only list as the log, a virtual clock, replies by token."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from penstock.coordination.context import EVERY_TOPIC, RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects, Respond
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.wire import messages as m
from penstock.wire.codec import encode_versioned
from penstock.wire.errors import ErrorCode

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass
class Topics:
    """Topics that exist, by name: id and number of partitions."""

    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    version: int = 0

    def create(self, name: str, partitions: int) -> bytes:
        topic_id = (b"%b" % name.encode()).ljust(12, b"\0") + (self.version + 1).to_bytes(4, "big")
        self.topics[name] = (topic_id[:16], partitions)
        self.version += 1
        return topic_id[:16]

    def delete(self, name: str) -> bytes:
        self.version += 1
        return self.topics.pop(name)[0]

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self.topics[name] = (self.topics[name][0], partitions)

    def topic_id(self, name: str) -> bytes | None:
        return self.topics[name][0] if name in self.topics else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (known, _) in self.topics.items() if known == topic_id), None)

    def partition_count(self, name: str) -> int:
        return self.topics[name][1]

    def topic_names(self) -> Iterable[str]:
        return list(self.topics)


class Shell:
    def __init__(self, settings: GroupSettings | None = None, **topics: int) -> None:
        self.settings = settings or GroupSettings(
            group_initial_rebalance_delay_ms=100, group_consumer_assignment_interval_ms=0
        )
        self.topics = Topics()
        for name, partitions in topics.items():
            self.topics.create(name, partitions)
        self.log: list[tuple[CoordinatorRecord, int]] = []
        self.now_ms = 1_000_000
        self.view = EVERY_TOPIC
        self.replies: dict[int, object] = {}
        self.asked: set[int] = set()
        self.disk_full = False
        self.share_state: dict[tuple[str, bytes, int], int] = {}
        self._uuids = itertools.count(1)
        self._tokens = itertools.count(1)
        self.shard = self._new_shard()
        self.apply(self.shard.loaded(self.now_ms))

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, self.topics, lambda: f"uuid-{next(self._uuids):04d}")

    # ---- what a shell does -------------------------------------------------------------------------------------------

    def apply(self, effects: Effects) -> None:
        if effects.records and self.disk_full:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            others = self.shard.append_failed(effects, error)
            effects.fail(error)
            others.send()
        else:
            producer_id = effects.transaction.producer_id if effects.transaction else -1
            for record in effects.records:
                self.log.append((record, producer_id))
                self.shard.replay(record.key, record.value, producer_id)
            for action in effects.actions:
                self._act(action)
            effects.send()
        self._run_timers()

    def _replied(self, token: int, response: object) -> None:
        assert token in self.asked, "a reply to nobody"
        assert token not in self.replies, "two replies to one request"
        self.replies[token] = response

    def _act(self, action: object) -> None:
        if isinstance(action, InitializeShareState):
            partitions = {}
            for topic_id, offsets in action.start_offsets.items():
                partitions[topic_id] = frozenset(offsets)
                for partition, offset in offsets.items():
                    self.share_state[action.group_id, topic_id, partition] = offset
            self.apply(self.shard.share_state_initialized(action.group_id, partitions, self.now_ms))
        elif isinstance(action, DeleteShareState):
            for topic_id, indexes in action.partitions.items():
                for partition in indexes:
                    self.share_state.pop((action.group_id, topic_id, partition), None)
            topics = frozenset(action.partitions)
            self.apply(self.shard.share_state_deleted(action.group_id, topics, self.now_ms))
        else:
            raise AssertionError(action)

    def _run_timers(self) -> None:
        for _ in range(10_000):
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > self.now_ms:
                return
            effects = self.shard.tick(self.now_ms)
            if effects.records or effects.replies or effects.actions:
                self.apply(effects)
                return
        raise AssertionError("timers never come to rest")

    def pass_time(self, ms: int) -> None:
        """Let time go by, stopping at every deadline on the way."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._run_timers()
        self.now_ms = end_ms

    def restart(self) -> None:
        """The broker dies and comes back: all that is not in the log is lost, parked requests included."""
        self.asked = set(self.replies)
        self.shard = self._new_shard()
        for record, producer_id in self.log:
            self.shard.replay(record.key, record.value, producer_id)
        self.apply(self.shard.loaded(self.now_ms))

    def context(self, version: int, client_id: str = "client", host: str = "/127.0.0.1") -> RequestContext:
        return RequestContext(self.now_ms, version, client_id, host, self.view)

    def ask(
        self,
        command: Callable[[Respond[Response], RequestContext, Request], Effects],
        version: int,
        request: Request,
    ) -> int:
        """Send a request; the token under which the reply will be found."""
        token, respond = self.respond()
        self.apply(command(respond, self.context(version), request))
        return token

    def respond(self) -> tuple[int, Callable[[object], None]]:
        token = next(self._tokens)
        self.asked.add(token)
        return token, partial(self._replied, token)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "group",
        instance_id: str | None = None,
        protocols: Iterable[tuple[str, bytes]] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
    ) -> int:
        request = m.JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name=n, metadata=d) for n, d in protocols],
        )
        return self.ask(self.shard.join_group, version, request)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "group",
        instance_id: str | None = None,
        protocol_name: str | None = None,
        version: int = 5,
    ) -> int:
        request = m.SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_name=protocol_name,
            assignments=[
                m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=i, assignment=a)
                for i, a in (assignments or {}).items()
            ],
        )
        return self.ask(self.shard.sync_group, version, request)

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = "group", instance_id: str | None = None
    ) -> ErrorCode:
        request = m.HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        response = self.reply(self.ask(self.shard.heartbeat, 4, request))
        assert isinstance(response, m.HeartbeatResponse)
        return ErrorCode(response.error_code)

    def leave(self, *members: tuple[str, str | None], group_id: str = "group") -> list[ErrorCode]:
        request = m.LeaveGroupRequest(
            group_id=group_id,
            members=[m.LeaveGroupRequest.MemberIdentity(member_id=i, group_instance_id=g) for i, g in members],
        )
        response = self.reply(self.ask(self.shard.leave_group, 5, request))
        assert isinstance(response, m.LeaveGroupResponse)
        return [ErrorCode(member.error_code) for member in response.members]

    def consumer_heartbeat(self, member_id: str, epoch: int, **fields: Any) -> m.ConsumerGroupHeartbeatResponse:
        owned = fields.pop("owned", None)
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=str(fields.pop("group_id", "group")), member_id=member_id, member_epoch=epoch, **fields
        )
        if owned is not None:
            assert isinstance(owned, dict)
            request.topic_partitions = [
                m.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=t, partitions=sorted(p))
                for t, p in owned.items()
            ]
        response = self.reply(self.ask(self.shard.consumer_group_heartbeat, 1, request))
        assert isinstance(response, m.ConsumerGroupHeartbeatResponse)
        return response

    def consumer_join(self, member_id: str, *topics: str, **fields: object) -> m.ConsumerGroupHeartbeatResponse:
        return self.consumer_heartbeat(
            member_id, 0, subscribed_topic_names=list(topics), rebalance_timeout_ms=60_000, owned={}, **fields
        )

    def share_heartbeat(
        self, member_id: str, epoch: int, topics: Iterable[str] | None = None, group_id: str = "group"
    ) -> m.ShareGroupHeartbeatResponse:
        request = m.ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        response = self.reply(self.ask(self.shard.share_group_heartbeat, 1, request))
        assert isinstance(response, m.ShareGroupHeartbeatResponse)
        return response

    def commit(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        group_id: str = "group",
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> ErrorCode:
        request_class = m.OffsetCommitRequest
        request = request_class(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                request_class.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topics.topic_id(topic) or m.ZERO_UUID,
                    partitions=[
                        request_class.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        response = self.reply(self.ask(self.shard.offset_commit, version, request))
        assert isinstance(response, m.OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def txn_commit(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        producer_id: int = 1,
        group_id: str = "group",
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
    ) -> ErrorCode:
        request_class = m.TxnOffsetCommitRequest
        request = request_class(
            transactional_id="txn",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                request_class.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        request_class.TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        response = self.reply(self.ask(self.shard.txn_offset_commit, 5, request))
        assert isinstance(response, m.TxnOffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch(
        self, topic: str, partition: int, *, group_id: str = "group", require_stable: bool = False, **fields: Any
    ) -> m.OffsetFetchResponse.OffsetFetchResponsePartitions:
        request = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[m.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
            **fields,
        )
        answered = self.shard.offset_fetch(request, require_stable)
        assert answered.error_code == ErrorCode.NONE, ErrorCode(answered.error_code)
        return answered.topics[0].partitions[0]

    def delete_groups(self, *group_ids: str) -> dict[str, ErrorCode]:
        token, respond = self.respond()
        self.apply(self.shard.delete_groups(respond, self.context(2), group_ids))
        results = self.reply(token)
        assert isinstance(results, list)
        return {result.group_id: ErrorCode(result.error_code) for result in results}

    # ---- replies -----------------------------------------------------------------------------------------------------

    def reply(self, token: int) -> object:
        assert token in self.replies, "no reply yet"
        return self.replies[token]

    def is_parked(self, token: int) -> bool:
        return token not in self.replies

    def joined(self, token: int) -> m.JoinGroupResponse:
        response = self.reply(token)
        assert isinstance(response, m.JoinGroupResponse)
        return response

    def synced(self, token: int) -> m.SyncGroupResponse:
        response = self.reply(token)
        assert isinstance(response, m.SyncGroupResponse)
        return response

    # ---- whole conversations -----------------------------------------------------------------------------------------

    def new_member_id(self, **fields: object) -> str:
        """The first step of a dynamic join: the coordinator hands out a member id."""
        response = self.joined(self.join("", **fields))  # type: ignore[arg-type]
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def join_round(self, *members: str, **fields: object) -> list[m.JoinGroupResponse]:
        """All these members join an empty group, or rejoin."""
        tokens = [self.join(member, **fields) for member in members]  # type: ignore[arg-type]
        self.pass_time(self.settings.group_initial_rebalance_delay_ms * 2)
        return [self.joined(token) for token in tokens]

    def stable_group(self, count: int, **fields: object) -> tuple[list[str], int]:
        """A classic group of so many dynamic members, each with an assignment. Returns member ids and generation."""
        members = [self.new_member_id(**fields) for _ in range(count)]
        joined = self.join_round(*members, **fields)
        leader = next(response for response in joined if response.leader == response.member_id)
        assignments = {member.member_id: f"to {member.member_id}".encode() for member in leader.members}
        assert set(assignments) == set(members)
        generation = leader.generation_id
        group_id = str(fields.get("group_id", "group"))
        for member in members:
            self.sync(member, generation, assignments if member == leader.member_id else None, group_id=group_id)
        return members, generation


def assigned(response: m.ConsumerGroupHeartbeatResponse | m.ShareGroupHeartbeatResponse) -> dict[bytes, set[int]]:
    assert response.error_code == ErrorCode.NONE, (ErrorCode(response.error_code), response.error_message)
    assert response.assignment is not None, "the response has no assignment"
    return {topic.topic_id: set(topic.partitions) for topic in response.assignment.topic_partitions}


def subscription(*topics: str, owned: dict[str, list[int]] | None = None, version: int = 1) -> bytes:
    blob = m.ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    if owned:
        blob.owned_partitions = [
            m.ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in owned.items()
        ]
    return encode_versioned(blob, version)


def assignment_blob(version: int = 1, **topics: list[int]) -> bytes:
    blob = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
        user_data=None,
    )
    return encode_versioned(blob, version)
