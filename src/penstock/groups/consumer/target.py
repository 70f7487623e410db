"""The target assignment: what every member of a consumer group should hold."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.groups.assignors import ASSIGNORS, Assignment, AssignorMember
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.records import Partitions
from penstock.groups.settings import TopicsView


def topic_ids(names: frozenset[str], topics: TopicsView) -> frozenset[bytes]:
    """The ids of those topics that exist; a subscription to a topic that does not exist yet is no error."""
    return frozenset(topic_id for name in names if (topic_id := topics.topic_id(name)) is not None)


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    former: Mapping[str, str],
    assignor_name: str,
    topics: TopicsView,
) -> dict[str, Assignment]:
    """The new target of all `members`. `former` names the member whose place a restarted static member takes."""
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    specs = []
    for member_id, member in members.items():
        names = group.topics_of(member)
        if names not in ids:
            ids[names] = topic_ids(names, topics)
            for name in names:
                topic_id = topics.topic_id(name)
                if topic_id is not None:
                    counts[topic_id] = topics.partition_count(name)
        current = group.target.get(member_id) or group.target.get(former.get(member_id, ""), {})
        specs.append(AssignorMember(member_id, ids[names], current, member.instance_id))
    return ASSIGNORS[assignor_name](specs, counts)


def changed_targets(group: ConsumerGroup, target: Mapping[str, Assignment]) -> dict[str, Partitions]:
    """Only these need a record."""
    return {
        member_id: partitions for member_id, partitions in target.items() if group.target.get(member_id) != partitions
    }
