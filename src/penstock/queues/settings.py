"""What one share group is configured to do: group configs over the broker's own, resolved by the shell (KIP-1240).

Settings are read anew for every request, so a change applies to the next acquisition or release and never to a lock
that already runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """How long a released or expired record waits before it may be acquired again. Penstock's own, off by default."""

    initial_ms: int = 0
    multiplier: float = 1.0
    max_ms: int = 0

    def after_delivery_ms(self, delivery_count: int) -> int:
        wait_ms = self.initial_ms * self.multiplier ** max(0, delivery_count - 1)
        return int(min(wait_ms, self.max_ms)) if self.max_ms > 0 else int(wait_ms)


@dataclass(frozen=True, slots=True)
class ShareSettings:
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renew_acknowledge_enabled: bool = True
    read_committed: bool = False
    auto_offset_reset: str = "latest"
    retry_backoff: RetryBackoff | None = None
    delivery_time_header: str = ""
    """Name of the record header that holds the earliest delivery time (milliseconds since 1970, as text)."""
    dead_letter_topic: str = ""
    dead_letter_authority: str = ""
    dead_letter_copies_record: bool = False

    @property
    def throttle_from_count(self) -> int:
        """Delivery count from which a record is suspect (KAFKA-17541): half the limit, rounded up, at least two."""
        return max(2, (self.delivery_count_limit + 1) // 2)
