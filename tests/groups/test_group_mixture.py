"""All protocols at once on the same group ids: whatever the clients do, memory is what the log says.

Members of every kind (classic, consumer, share, static and dynamic) act on two groups in random order, sometimes with
wrong epochs and generations, with a disk that fills up and empties again. No request may break the coordinator, every
request is answered at most once, and a coordinator that reads the log from its beginning has the same groups.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, subscription

GROUPS = st.sampled_from(["one", "two"])
MEMBERS = st.sampled_from(["a", "b", "c"])
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
EPOCHS = st.sampled_from(["right", "right", "right", 0, 1, 7])
TOPICS = st.sampled_from([["foo"], ["bar"], ["foo", "bar"], ["none"]])


class MixtureMachine(RuleBasedStateMachine):
    @initialize(interval_ms=st.sampled_from([0, 1_000]))
    def start(self, interval_ms: int) -> None:
        self.shell = Shell(
            GroupSettings(group_initial_rebalance_delay_ms=10, group_consumer_assignment_interval_ms=interval_ms),
            foo=3,
            bar=2,
        )
        # What clients believe: (group, member) -> epoch and owned partitions, and the ids that classic members got.
        self.epochs: dict[tuple[str, str], int] = {}
        self.owned: dict[tuple[str, str], dict[bytes, set[int]]] = {}
        self.classic: dict[tuple[str, str], tuple[str, int]] = {}
        self.waiting: dict[tuple[str, str], int] = {}

    # ---- consumer and share members ----------------------------------------------------------------------------------

    @rule(
        group=GROUPS,
        member=MEMBERS,
        instance=INSTANCES,
        epoch=EPOCHS,
        topics=TOPICS,
        regex=st.sampled_from([None, None, "", "f.*", "b|f"]),
        says_owned=st.booleans(),
    )
    def consumer_heartbeat(
        self,
        group: str,
        member: str,
        instance: str | None,
        epoch: object,
        topics: list[str],
        regex: str | None,
        says_owned: bool,
    ) -> None:
        key = (group, member)
        sent = self.epochs.get(key, 0) if epoch == "right" else int(str(epoch))
        fields: dict[str, object] = {"group_id": group, "instance_id": instance}
        if sent == 0:
            fields |= {"subscribed_topic_names": topics, "rebalance_timeout_ms": 5_000, "owned": {}}
            fields["subscribed_topic_regex"] = regex
        elif says_owned:
            fields["owned"] = self.owned.get(key, {})
        response = self.shell.consumer_heartbeat(member, sent, **fields)
        if response.error_code == ErrorCode.NONE:
            self.epochs[key] = response.member_epoch
            if response.assignment is not None:
                self.owned[key] = {t.topic_id: set(t.partitions) for t in response.assignment.topic_partitions}
        else:
            self.epochs.pop(key, None)
            self.owned.pop(key, None)

    @rule(group=GROUPS, member=MEMBERS, instance=INSTANCES, epoch=st.sampled_from([-1, -2]))
    def consumer_leave(self, group: str, member: str, instance: str | None, epoch: int) -> None:
        self.shell.consumer_heartbeat(member, epoch, group_id=group, instance_id=instance)
        self.epochs.pop((group, member), None)
        self.owned.pop((group, member), None)

    @rule(group=GROUPS, member=MEMBERS, epoch=EPOCHS, topics=TOPICS)
    def share_heartbeat(self, group: str, member: str, epoch: object, topics: list[str]) -> None:
        sent = self.epochs.get((group, member), 0) if epoch == "right" else int(str(epoch))
        response = self.shell.share_heartbeat(member, sent, topics if sent == 0 else None, group_id=group)
        if response.error_code == ErrorCode.NONE:
            self.epochs[group, member] = response.member_epoch

    @rule(group=GROUPS, member=MEMBERS)
    def share_leave(self, group: str, member: str) -> None:
        self.shell.share_heartbeat(member, -1, group_id=group)

    # ---- classic members ---------------------------------------------------------------------------------------------

    @rule(group=GROUPS, member=MEMBERS, instance=INSTANCES, topics=TOPICS, version=st.sampled_from([3, 8, 9]))
    def join(self, group: str, member: str, instance: str | None, topics: list[str], version: int) -> None:
        self._collect()
        key = (group, member)
        member_id, _ = self.classic.get(key, ("", -1))
        self.waiting[key] = self.shell.join(
            member_id,
            group_id=group,
            instance_id=instance if version >= 5 else None,
            protocols=[("range", subscription(*topics)), ("sticky", subscription(*topics))],
            version=version,
            rebalance_timeout_ms=5_000,
        )
        self._collect()

    def _collect(self) -> None:
        for key, token in list(self.waiting.items()):
            if self.shell.is_parked(token):
                continue
            response = self.shell.joined(token)
            del self.waiting[key]
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.classic[key] = (response.member_id, response.generation_id)
            elif response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.classic.pop(key, None)

    @rule(group=GROUPS, member=MEMBERS, instance=INSTANCES)
    def sync(self, group: str, member: str, instance: str | None) -> None:
        self._collect()
        member_id, generation = self.classic.get((group, member), ("who", 1))
        given = {known: b"" for (g, _), (known, _) in self.classic.items() if g == group}
        self.shell.sync(member_id, generation, given, group_id=group, instance_id=instance)

    @rule(group=GROUPS, member=MEMBERS, instance=INSTANCES)
    def heartbeat(self, group: str, member: str, instance: str | None) -> None:
        self._collect()
        member_id, generation = self.classic.get((group, member), ("who", 1))
        self.shell.heartbeat(member_id, generation, group_id=group, instance_id=instance)

    @rule(group=GROUPS, member=MEMBERS, instance=INSTANCES)
    def leave(self, group: str, member: str, instance: str | None) -> None:
        self._collect()
        member_id, _ = self.classic.pop((group, member), ("", -1))
        self.shell.leave((member_id, instance), group_id=group)

    # ---- offsets, administration, the world --------------------------------------------------------------------------

    @rule(group=GROUPS, member=MEMBERS, partition=st.integers(0, 2), anonymous=st.booleans())
    def commit(self, group: str, member: str, partition: int, anonymous: bool) -> None:
        member_id, generation = self.classic.get((group, member), (member, self.epochs.get((group, member), 1)))
        if anonymous:
            member_id, generation = "", -1
        self.shell.commit("foo", partition, 5, group_id=group, member_id=member_id, generation=generation)

    @rule(group=GROUPS, producer_id=st.integers(1, 2))
    def commit_in_transaction(self, group: str, producer_id: int) -> None:
        self.shell.txn_commit("foo", 0, 9, group_id=group, producer_id=producer_id)

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        self.shell.delete_groups(group)

    @rule(ms=st.sampled_from([5, 100, 4_000, 46_000]))
    def wait(self, ms: int) -> None:
        self.shell.pass_time(ms)

    @rule(partitions=st.integers(1, 6))
    def change_topics(self, partitions: int) -> None:
        if self.shell.topics.topic_id("bar") is None:
            self.shell.topics.create("bar", partitions)
        elif partitions > self.shell.topics.partition_count("bar"):
            self.shell.topics.grow("bar", partitions)
        else:
            topic_id = self.shell.topics.delete("bar")
            self.shell.apply(self.shell.shard.topics_deleted({"bar": topic_id}, self.shell.now_ms))

    @rule(full=st.booleans())
    def disk(self, full: bool) -> None:
        self.shell.disk_full = full

    @rule()
    def restart(self) -> None:
        self.shell.disk_full = False
        self.shell.restart()
        self.waiting.clear()

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        if not hasattr(self, "shell"):
            return
        live = self.shell.shard
        again = GroupShard(self.shell.settings, self.shell.topics, lambda: "uuid")
        for record, producer_id in self.shell.log:
            again.replay(record.key, record.value, producer_id)
        for group_id in ("one", "two"):
            one, other = live.state.groups.get(group_id), again.state.groups.get(group_id)
            if isinstance(one, ClassicGroup) and one.state not in (ClassicState.STABLE, ClassicState.EMPTY):
                continue
            assert type(one) is type(other), group_id
            if isinstance(one, ConsumerGroup):
                mine, theirs = (s.consumer_group_describe(group_id) for s in (live, again))
                assert sorted(map(repr, mine.members)) == sorted(map(repr, theirs.members))
                assert (mine.group_epoch, mine.assignment_epoch) == (theirs.group_epoch, theirs.assignment_epoch)
                assert live.state.consumer(group_id).owners == again.state.consumer(group_id).owners
            elif one is not None and not isinstance(one, ClassicGroup):
                assert live.share_group_describe(group_id) == again.share_group_describe(group_id)
                assert live.share_state_partitions(group_id) == again.share_state_partitions(group_id)
            request = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
            assert live.offset_fetch(request) == again.offset_fetch(request)


TestMixture = MixtureMachine.TestCase
TestMixture.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestLongMixture(MixtureMachine.TestCase):  # type: ignore[misc, valid-type]  # a class that is made
    settings = settings(max_examples=400, stateful_step_count=80, deadline=None)
