"""What is used of each quota, by those who share it, in bounded memory.

Clients choose their client ids, so whoever has a default quota could make the broker remember one more of them with
each request. There is room for `MAX_REMEMBERED`; the one that was not used for longest is forgotten first. To forget
one whose allowance is whole again loses nothing, and the sweep does so.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TypeAlias

from penstock.security.quotas import Quota, Share, TokenBucket

MAX_REMEMBERED = 10_000
_LONGEST_NAME = 200

Key: TypeAlias = tuple[Quota, Share]


class Usage:
    def __init__(self, capacity_seconds: Mapping[Quota, float]) -> None:
        """A client may save up so many seconds of each quota."""
        self._capacity_seconds = capacity_seconds
        self._buckets: dict[Key, tuple[TokenBucket, float]] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def bucket(self, quota: Quota, share: Share, bound: float) -> TokenBucket:
        """What is left of a quota to those who share it."""
        key = (quota, _short(share))
        buckets = self._buckets
        found = buckets.pop(key, None)
        if found is None and len(buckets) >= MAX_REMEMBERED:
            del buckets[next(iter(buckets))]
        bucket = TokenBucket(self._capacity_seconds[quota]) if found is None else found[0]
        buckets[key] = (bucket, bound)  # the last one is the one that was used last
        return bucket

    def sweep(self, now_ms: int) -> None:
        """Forget what is full again."""
        for key in [key for key, (bucket, bound) in self._buckets.items() if bucket.is_full(bound, now_ms)]:
            del self._buckets[key]


def _short(share: Share) -> Share:
    """A long name is remembered by its digest."""
    user, client_id = share
    if len(user or "") <= _LONGEST_NAME and len(client_id or "") <= _LONGEST_NAME:
        return share
    return Share(*(None if name is None else sha256(name.encode()).hexdigest() for name in share))
