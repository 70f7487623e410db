"""What the group coordinator requests of the share coordinator, and what it hears of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.broker.share.actions import Codes, ShareActions
from penstock.broker.world import SteadyTime
from penstock.coordination.effects import Effects
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.wire.errors import ErrorCode
from tests.broker.simulated_world import SimulatedWorld

TOPIC = bytes(15) + b"\1"


class ShareState:
    """Knows partition 0 of each topic, and no other."""

    def initialize(self, action: InitializeShareState, done: Codes) -> None:
        self.delete(action.group_id, action.start_offsets, done)

    def delete(self, group_id: str, partitions: Mapping[bytes, Collection[int]], done: Codes) -> None:
        done(
            {
                (topic_id, index): ErrorCode.NONE if index == 0 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                for topic_id, indexes in partitions.items()
                for index in indexes
            }
        )


class Group:
    """A shard of the group coordinator, with its handle, that notes what it hears."""

    def __init__(self) -> None:
        self.shard = self
        self.heard: list[tuple[object, ...]] = []
        self.times_ms: list[int] = []

    def run(self, effects: Effects) -> bool:
        return True

    def share_state_initialized(self, group_id: str, partitions: object, now_ms: int, succeeded: bool) -> Effects:
        self.heard.append((partitions, succeeded))
        self.times_ms.append(now_ms)
        return Effects()

    def share_state_deleted(self, group_id: str, topics: object, now_ms: int, error: ErrorCode) -> Effects:
        self.heard.append((topics, error))
        self.times_ms.append(now_ms)
        return Effects()


def carried_out(action: InitializeShareState | DeleteShareState) -> list[tuple[object, ...]]:
    world, group = SimulatedWorld(), Group()
    time = SteadyTime(world)
    world.clock_ahead_ms = 3_600_000
    ShareActions(ShareState, time).request(group, action)  # type: ignore[arg-type]
    assert group.heard == []  # the shard is still busy with the command that requested it
    world.pass_ms(0)
    assert set(group.times_ms) == {time.now_ms()}  # the clock of the group's timers, not the one that was set
    return group.heard


def test_the_group_hears_which_partitions_were_initialized_and_which_were_not() -> None:
    action = InitializeShareState("g", 1, {TOPIC: {0: -1, 1: -1}})
    assert carried_out(action) == [({TOPIC: frozenset({0})}, True), ({TOPIC: frozenset({1})}, False)]


def test_the_group_hears_of_a_deletion_and_of_its_first_error() -> None:
    assert carried_out(DeleteShareState("g", {TOPIC: frozenset({0})})) == [(frozenset({TOPIC}), ErrorCode.NONE)]
    assert carried_out(DeleteShareState("g", {TOPIC: frozenset({0, 1})})) == [
        (frozenset({TOPIC}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]
