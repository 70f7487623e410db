"""The four assignors of classic consumer groups, as pure functions and as the named objects that a member lists.

assign_range({"orders": 6}, {"a": MemberSubscription(("orders",)), "b": MemberSubscription(("orders",))})
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.assignors.base import Assignment, Assignor, MemberSubscription
from penstock.client.assignors.cooperative_sticky import CooperativeStickyAssignor, assign_cooperative_sticky
from penstock.client.assignors.range import RangeAssignor, assign_range
from penstock.client.assignors.roundrobin import RoundRobinAssignor, assign_roundrobin
from penstock.client.assignors.sticky import StickyAssignor, assign_sticky
from penstock.client.errors import UsageError, nearest

__all__ = [
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_roundrobin",
    "assign_sticky",
    "assignors_named",
]

_BY_NAME: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    # Java's class names, as they stand in configuration files
    "org.apache.kafka.clients.consumer.RangeAssignor": RangeAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinAssignor,
    "org.apache.kafka.clients.consumer.StickyAssignor": StickyAssignor,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def assignors_named(names: str) -> list[Assignor]:
    """Fresh assignors from a list of names separated by commas."""
    chosen = []
    for name in (part.strip() for part in names.split(",")):
        if name not in _BY_NAME:
            guess = nearest(name, _BY_NAME)
            hint = (
                f"; did you mean {guess!r}?" if guess else "; there are range, roundrobin, sticky, cooperative-sticky"
            )
            raise UsageError(f"there is no assignor {name!r}{hint}")
        chosen.append(_BY_NAME[name]())
    return chosen
