"""What the parts of a group coordinator shard share: the groups, the timers, the view of the world.

Lasting state changes only in `replay`. A classic group that a command makes (a first join, a downgrade) waits in
`incoming` until its record is in the log, because the live object knows more than the record does (parked requests,
all protocols of each member).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.offset_store import OffsetStore
from penstock.groups.settings import GroupSettings, TopicsView
from penstock.groups.share.group import ShareGroup
from penstock.groups.timeline import Happened, Member, Timeline
from penstock.groups.timers import Timers
from penstock.wire.errors import GroupIdNotFound

Group = ClassicGroup | ConsumerGroup | ShareGroup


class ShardState:
    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        new_uuid: Callable[[], str],
        timeline: Timeline | None = None,
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.new_uuid = new_uuid
        self.timers = Timers()
        self.groups: dict[str, Group] = {}
        self.incoming: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self.loading = True
        self.rebalances: Counter[str] = Counter()
        """Generations and group epochs that began since the shard was loaded, by type of group."""
        self.timeline = Timeline() if timeline is None else timeline
        # The time of the last command; replay has no clock of its own.
        self.now_ms = 0

    def note(
        self, group_id: str, happened: Happened, epoch: int, member: Member | None = None, detail: str = ""
    ) -> None:
        """Remember, for people, what happened to a group in the command that runs."""
        self.timeline.note(group_id, self.now_ms, happened, epoch, member, detail)

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def classic(self, group_id: str) -> ClassicGroup:
        group = self.group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
        return group

    def consumer(self, group_id: str) -> ConsumerGroup:
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def share(self, group_id: str) -> ShareGroup:
        group = self.group(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        return group
