"""Refuse to start with a clock that is far from that of the cluster's database.

Leases do not rest on it: they count by the database's clock and by the time since the machine was started. Timestamps
of records, retention and the ages that are shown do.
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.catalog.contract import CatalogError

MAX_SECONDS = 60.0


def check_clock(theirs: float, ours: float, address: str) -> None:
    """Seconds since 1970, there and here. Raises CatalogError with what to do."""
    apart = abs(theirs - ours)
    if apart > MAX_SECONDS:
        raise CatalogError(
            f"the clock of this machine is {apart:.0f} seconds {'behind' if theirs > ours else 'ahead of'} that of "
            f"PostgreSQL at {address} ({_shown(ours)} here, {_shown(theirs)} there): retention and timestamps "
            "would be wrong. Set both clocks, for example with NTP, and start again"
        )


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
