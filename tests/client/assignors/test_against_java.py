"""The same groups through Kafka's own Java classes."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from penstock.client.assignors import MemberSubscription, assign_range, assign_roundrobin
from tests.client.assignors.random_groups import AssignFunction, Group


def _random_group(chance: random.Random) -> Group:
    topics = [f"t{n}" for n in range(chance.randint(1, 5))]
    counts = {topic: chance.randint(1, 12) for topic in topics}
    members = {}
    for number in chance.sample(range(100), chance.randint(1, 8)):
        chosen = chance.sample(topics, chance.randint(1, len(topics)))
        instance = f"i{chance.randint(0, 9)}{number}" if chance.random() < 0.3 else None
        members[f"member{number}"] = MemberSubscription(tuple(chosen), group_instance_id=instance)
    return counts, members


def _line(name: str, group: Group) -> str:
    counts, members = group
    members_text = ",".join(f"{m}:{s.group_instance_id or ''}:{' '.join(s.topics)}" for m, s in members.items())
    return f"{name}|{','.join(f'{t}={n}' for t, n in counts.items())}|{members_text}"


def _ours(assign: AssignFunction, group: Group) -> str:
    assignment = assign(*group)
    return ",".join(
        f"{name}:{' '.join(sorted(f'{tp.topic}-{tp.partition}' for tp in mine))}"
        for name, mine in sorted(assignment.items())
    )


@pytest.mark.java
def test_range_and_roundrobin_assign_what_java_assigns(kafka_jars: Path) -> None:
    chance = random.Random(7)
    groups = [_random_group(chance) for _ in range(500)]
    cases = [(name, f, group) for group in groups for name, f in (("range", assign_range), ("rr", assign_roundrobin))]
    lines = "\n".join(_line(name, group) for name, _, group in cases)
    source = Path(__file__).with_name("Assign.java")
    run = subprocess.run(
        ["java", "-cp", f"{kafka_jars}/*", str(source)], input=lines, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [_ours(assign, group) for _, assign, group in cases]
