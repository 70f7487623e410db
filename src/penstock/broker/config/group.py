"""A group's configs (KIP-848, KIP-932), and the broker's configs that stand in for those which a group does not set."""

from __future__ import annotations

from penstock.broker.config.definitions import read_table

_TABLE = read_table("""
consumer.assignment.interval.ms int =1000 >=0
    The least time between two assignments of the group.
consumer.heartbeat.interval.ms int =5000 >=1
    How often members send a heartbeat.
consumer.session.timeout.ms int =45000 >=1
    Silence after which a member is removed.
errors.deadletterqueue.copy.record.enable bool =false internal
    Whether a dead letter carries the record's key and value; its headers always say where the record came from.
errors.deadletterqueue.topic.name string = internal
    The topic for records that were rejected or delivered too often; without it they are only archived.
penstock.share.deadletterqueue.authority string = internal
    The principal and host whose rights apply to dead letters: whoever set their topic. Set by the broker.
penstock.share.delivery.time.header string = internal
    Name of the record header that holds the earliest time of delivery, in milliseconds since 1970 as text.
penstock.share.retry.backoff.max.ms long =60000 >=0 internal
    The longest wait between two deliveries of a record; 0 for no limit.
penstock.share.retry.backoff.ms long =0 >=0 internal
    How long a released or expired record waits before it is delivered again; 0 for not at all.
penstock.share.retry.backoff.multiplier double =2.0 >=1 internal
    Factor by which the wait grows with each delivery.
share.assignment.interval.ms int =1000 >=0
share.auto.offset.reset string =latest offset-reset
    Where a share group without offsets starts: earliest, latest or by_duration:PnDTnHnMn.nS.
share.delivery.count.limit int =5 >=2
    Number of deliveries after which a record is given up.
share.heartbeat.interval.ms int =5000 >=1
    How often members send a heartbeat.
share.isolation.level string =read_uncommitted {read_committed,read_uncommitted}
    Whether records of unfinished and aborted transactions are delivered.
share.partition.max.record.locks int =2000 >=100
    Records of a partition that may be in flight at a time.
share.record.lock.duration.ms int =30000 >=1000
    How long an acquired record stays locked for its consumer.
share.renew.acknowledge.enable bool =true
    Whether a consumer may renew the lock of a record that it is handling.
share.session.timeout.ms int =45000 >=1
    Silence after which a member is removed.
streams.assignment.interval.ms int =1000 >=0
streams.heartbeat.interval.ms int =5000 >=1
streams.initial.rebalance.delay.ms int =3000 >=0
streams.num.standby.replicas int =0 >=0
streams.session.timeout.ms int =45000 >=1
""")

GROUP = {definition.name: definition for definition in _TABLE}

# These have no counterpart among the broker's configs.
_ON_THEIR_OWN = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})

BROKER_SYNONYMS = {
    name: f"group.{name}"
    for name, definition in GROUP.items()
    if name not in _ON_THEIR_OWN and not definition.is_internal
}


def _bounds(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


# The broker configs between which a group's own value must lie, where there are such.
BROKER_BOUNDS = {
    **{name: _bounds(name) for name in GROUP if name.endswith((".interval.ms", ".timeout.ms", ".duration.ms"))},
    **{name: _bounds(name) for name in ("share.delivery.count.limit", "share.partition.max.record.locks")},
}
