"""How often members should heartbeat: often while partitions are on the move, rarely while nothing happens.

In Apache Kafka the interval is fixed (5 s), and since a member learns of a new assignment only from its own heartbeat,
a reassignment takes several times 5 s. Here the response to each heartbeat says when the next one is due:

* while a reassignment is under way, after `settling_ms` (a tenth of a second; more in very large groups, so that the
  heartbeats of a thousand members do not keep the broker busy);
* in a group that has settled, after a tenth of the time since it did, in steps, up to the configured interval. Changes
  come in flocks (a deployment, a crash and its restart), so a group that moved a moment ago will likely move again.
"""

from __future__ import annotations

SETTLING_MS = 100
# So many milliseconds per member at least: the heartbeats of one settling group are at most 200 a second.
MEMBER_SHARE_MS = 5
STABLE_SHARE = 10
STEPS_MS = (200, 500, 1_000, 2_000)


def settling_interval_ms(configured_ms: int, member_count: int) -> int:
    return min(configured_ms, max(SETTLING_MS, MEMBER_SHARE_MS * member_count))


def settled_interval_ms(configured_ms: int, member_count: int, stable_for_ms: int) -> int:
    """Steps instead of a smooth curve: the same request twice in a row gets the same answer."""
    interval_ms = settling_interval_ms(configured_ms, member_count)
    if stable_for_ms >= configured_ms * STABLE_SHARE:
        return configured_ms
    for step_ms in STEPS_MS:
        if stable_for_ms >= step_ms * STABLE_SHARE:
            interval_ms = max(interval_ms, min(step_ms, configured_ms))
    return interval_ms
