"""Random histories of classic and consumer groups: joins, leaves, silence, lost answers, restarts.

The clients here are honest but unlucky. Whatever happens, no partition has two owners, generations and epochs only go
up, every parked request is answered once, and when the trouble ends, the group settles.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.groups.classic.states import ClassicState
from penstock.groups.settings import GroupSettings
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, assigned

PARTITIONS = 7
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=100,
    group_consumer_assignment_interval_ms=0,
    # An empty group that expires begins again at epoch 1; that is for other tests.
    offsets_retention_check_interval_ms=10**12,
)
CLIENTS = st.integers(0, 4)


class ConsumerClient:
    """A member that does what it is told, when it hears it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.joined = False

    def forget(self) -> None:
        self.epoch, self.owned, self.joined = 0, {}, False


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shell = Shell(SETTINGS, foo=PARTITIONS, bar=2)
        self.clients = [ConsumerClient(f"c{index}") for index in range(5)]
        self.last_epoch = 0

    def _heartbeat(self, client: ConsumerClient, lost: bool, topics: list[str] | None = None) -> None:
        fields: dict[str, object] = {"owned": client.owned}
        if not client.joined:
            fields |= {"subscribed_topic_names": topics or ["foo"], "rebalance_timeout_ms": 60_000}
        elif topics is not None:
            fields["subscribed_topic_names"] = topics
        response = self.shell.consumer_heartbeat(client.name, client.epoch, **fields)
        if lost:
            return
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.forget()
            return
        if response.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            client.forget()
            return
        assert response.error_code == ErrorCode.NONE, response
        client.joined = True
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.owned = assigned(response)

    @rule(index=CLIENTS, lost=st.booleans())
    def heartbeat(self, index: int, lost: bool) -> None:
        self._heartbeat(self.clients[index], lost)

    @rule(index=CLIENTS, topics=st.sampled_from([["foo"], ["bar"], ["foo", "bar"]]))
    def resubscribe(self, index: int, topics: list[str]) -> None:
        self._heartbeat(self.clients[index], lost=False, topics=topics)

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        client = self.clients[index]
        if client.joined:
            client.owned = {}
            self.shell.consumer_heartbeat(client.name, -1)
        client.forget()

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        """The process dies: it owns nothing any more, but the coordinator does not know."""
        client = self.clients[index]
        client.name += "'"
        client.forget()

    @rule(ms=st.sampled_from([10, 1_000, 20_000, 50_000]))
    def wait(self, ms: int) -> None:
        before = {client.name for client in self.clients if client.joined}
        self.shell.pass_time(ms)
        group = self.shell.shard.state.groups.get("group")
        members = set() if group is None else set(group.members)
        for client in self.clients:
            # A member whose session ended stops working on its own (the client has the same timeout).
            if client.name in before and client.name not in members:
                client.owned = {}

    @rule()
    def restart(self) -> None:
        self.shell.restart()

    @rule(partitions=st.integers(PARTITIONS, PARTITIONS + 3))
    def grow(self, partitions: int) -> None:
        if partitions > self.shell.topics.partition_count("foo"):
            self.shell.topics.grow("foo", partitions)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        if not hasattr(self, "shell"):
            return
        owners: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    assert (topic_id, partition) not in owners, (owners[topic_id, partition], client.name)
                    owners[topic_id, partition] = client.name

    @invariant()
    def epochs_only_go_up(self) -> None:
        group = self.shell.shard.state.groups.get("group") if hasattr(self, "shell") else None
        if group is not None:
            epoch = group.epoch  # type: ignore[union-attr]
            assert epoch >= self.last_epoch
            self.last_epoch = epoch

    def teardown(self) -> None:
        """Trouble is over: everybody alive heartbeats, and the group settles with all partitions given out."""
        if not hasattr(self, "shell"):
            return
        self.shell.pass_time(60_000)
        for client in self.clients:
            client.owned = {}
            client.forget()
            client.name += "!"
        for _ in range(40):
            for client in self.clients:
                self._heartbeat(client, lost=False)
        self.no_partition_has_two_owners()
        foo = self.shell.topics.topic_id("foo")
        assert foo is not None
        owned = set().union(*(client.owned.get(foo, set()) for client in self.clients))
        assert owned == set(range(self.shell.topics.partition_count("foo")))
        assert self.shell.shard.consumer_group_describe("group").group_state == "Stable"


class ClassicClient:
    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.assignment: bytes | None = None


class ClassicGroupMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shell = Shell(SETTINGS)
        self.clients = [ClassicClient(f"c{i}", f"i{i}" if i % 2 else None) for i in range(5)]
        self.last_generation = 0
        self.seen_records = 0

    def _collect(self) -> None:
        """Read the answers that have come."""
        for client in self.clients:
            if client.join_token is not None and not self.shell.is_parked(client.join_token):
                response = self.shell.joined(client.join_token)
                client.join_token = None
                self._on_join(client, response)
            if client.sync_token is not None and not self.shell.is_parked(client.sync_token):
                synced = self.shell.synced(client.sync_token)
                client.sync_token = None
                if synced.error_code == ErrorCode.NONE:
                    client.assignment = bytes(synced.assignment)
                elif synced.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                    client.forget()

    def _on_join(self, client: ClassicClient, response: m.JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
            return
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                client.forget()
            return
        client.member_id, client.generation = response.member_id, response.generation_id
        client.assignment = None
        assignments = None
        if response.leader == response.member_id and not response.skip_assignment:
            # Give each partition to one member.
            members = [member.member_id for member in response.members]
            assignments = {
                member: f"{response.generation_id}:".encode() + bytes(range(index, PARTITIONS, len(members)))
                for index, member in enumerate(members)
            }
        client.sync_token = self.shell.sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )

    @rule(index=CLIENTS)
    def join(self, index: int) -> None:
        client = self.clients[index]
        client.assignment = None
        client.join_token = self.shell.join(client.member_id, instance_id=client.instance_id)
        self._collect()

    @rule(index=CLIENTS)
    def heartbeat(self, index: int) -> None:
        client = self.clients[index]
        if client.generation < 0:
            return
        error = self.shell.heartbeat(client.member_id, client.generation, instance_id=client.instance_id)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            client.assignment = None
            if client.join_token is None:
                client.join_token = self.shell.join(client.member_id, instance_id=client.instance_id)
        elif error != ErrorCode.NONE:
            client.forget()
        self._collect()

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        client = self.clients[index]
        if client.member_id:
            self.shell.leave((client.member_id, client.instance_id))
        client.forget()
        self._collect()

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        self.clients[index].forget()

    @rule(ms=st.sampled_from([50, 1_000, 9_000, 70_000]))
    def wait(self, ms: int) -> None:
        self.shell.pass_time(ms)
        self._collect()

    @rule()
    def restart(self) -> None:
        parked = [c for c in self.clients if c.join_token is not None or c.sync_token is not None]
        self.shell.restart()
        for client in parked:  # their connections broke: they join again
            client.join_token = client.sync_token = None
            client.generation = -1

    @invariant()
    def generations_only_go_up(self) -> None:
        if not hasattr(self, "shell"):
            return
        # A group that stays empty for long is forgotten, and counts from one again when somebody comes back.
        for record, _ in self.shell.log[self.seen_records :]:
            if record.key.startswith(b"\0\2") and record.value is None:
                self.last_generation = 0
        self.seen_records = len(self.shell.log)
        group = self.shell.shard.state.groups.get("group")
        if group is not None:
            # An unfinished generation is not in the log, so a restart may take back one.
            generation = group.generation  # type: ignore[union-attr]
            assert generation >= self.last_generation - 1
            self.last_generation = max(generation, self.last_generation)

    @invariant()
    def no_partition_has_two_owners_in_one_generation(self) -> None:
        if not hasattr(self, "shell"):
            return
        owners: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            if client.assignment:
                generation, _, partitions = client.assignment.partition(b":")
                for partition in partitions:
                    assert (generation, partition) not in owners
                    owners[generation, partition] = client.name

    @invariant()
    def only_members_of_a_rebalance_wait(self) -> None:
        group = self.shell.shard.state.groups.get("group") if hasattr(self, "shell") else None
        if group is None:
            return
        for member in group.members.values():
            if member.awaiting_join is not None:  # type: ignore[union-attr]
                assert group.state is ClassicState.PREPARING_REBALANCE
            if member.awaiting_sync is not None:  # type: ignore[union-attr]
                assert group.state is ClassicState.COMPLETING_REBALANCE

    @precondition(lambda self: hasattr(self, "shell"))
    @rule()
    def settle(self) -> None:
        """Everybody who is there keeps heartbeating: after a while the group is stable."""
        for _ in range(30):
            self.shell.pass_time(3_000)
            self._collect()
            for client in self.clients:
                if client.join_token is not None or client.sync_token is not None:
                    continue
                if client.generation < 0 or not client.member_id:
                    client.join_token = self.shell.join(client.member_id, instance_id=client.instance_id)
                else:
                    error = self.shell.heartbeat(client.member_id, client.generation, instance_id=client.instance_id)
                    if error == ErrorCode.REBALANCE_IN_PROGRESS:
                        client.assignment = None
                        client.join_token = self.shell.join(client.member_id, instance_id=client.instance_id)
                    elif error != ErrorCode.NONE:
                        client.forget()
                self._collect()
        assert self.shell.shard.describe_group("group", 6).group_state == "Stable"
        partitions = b"".join(sorted((client.assignment or b":").partition(b":")[2] for client in self.clients))
        assert sorted(partitions) == list(range(PARTITIONS))


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestClassicGroupMachine = ClassicGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestClassicGroupMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestLongConsumerGroupMachine(ConsumerGroupMachine.TestCase):  # type: ignore[misc, valid-type]  # a class that is made
    settings = settings(max_examples=400, stateful_step_count=80, deadline=None)


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestLongClassicGroupMachine(ClassicGroupMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=400, stateful_step_count=80, deadline=None)
