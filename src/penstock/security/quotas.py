"""Client quotas: whom a quota is for, which of several counts, and how long whoever exceeds it has to wait.

A quota belongs to an entity: a user, a client id, both, or the default of either. Of all quotas that match a request
the most specific one counts (`Limits.find`), and what it limits is what the requests use together that share it: a
user's quota is one allowance for all of the user's clients, a default gives each of those that it stands for an
allowance of their own.

Usage is measured with a `TokenBucket`: it fills at the rate of the quota, holds as much as may be saved up, and may be
overdrawn once; the time to wait is what fills it again. Kafka does so for controller mutations (KIP-599). For bytes,
requests and connections Kafka takes the average of the last windows. Whoever first exceeds a quota waits for the same
time there, but then gets a burst through whenever the window with the first one is forgotten, and a tenth too much in
the long run. A bucket holds the rate from then on. All times are handed in, in milliseconds on a clock that never goes
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv6Address, ip_address
from math import floor
from typing import NamedTuple, TypeAlias

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Whom a quota is for, sorted: `(("client-id", None), ("user", "alice"))`. None is the default of its kind."""

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

MAX_THROTTLE_MS = 2**31 - 1
"""The longest time that a response can carry."""


NO_LIMIT = 2**31 - 1
"""What a bound that is an int is when nothing is limited."""


class Quota(Enum):
    """What is limited, by its name in Kafka's APIs."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


CLIENT_QUOTAS = (Quota.PRODUCE, Quota.FETCH, Quota.REQUEST, Quota.MUTATION)


class Share(NamedTuple):
    """Those who use one allowance together: a user's clients, a client id's users, or one client of one user.

    None is everybody: `Share("alice", None)` is all of Alice's clients.
    """

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    bound: float
    """How much per second: bytes, percent of a second, partitions."""
    share: Share


class Limits:
    """The quotas of one kind, and which of them counts for whom."""

    __slots__ = ("_bounds",)

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], quota: Quota) -> None:
        self._bounds = {
            _canonical(entity): values[quota.value] for entity, values in quotas.items() if quota.value in values
        }

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The most specific quota for a client of a user, or None if nothing limits it."""
        bounds = self._bounds
        for its_client, its_user, share in (
            ((CLIENT_ID, client_id), (USER, user), Share(user, client_id)),
            ((CLIENT_ID, None), (USER, user), Share(user, client_id)),
            (None, (USER, user), Share(user, None)),
            ((CLIENT_ID, client_id), (USER, None), Share(user, client_id)),
            ((CLIENT_ID, None), (USER, None), Share(user, client_id)),
            (None, (USER, None), Share(user, None)),
            ((CLIENT_ID, client_id), None, Share(None, client_id)),
            ((CLIENT_ID, None), None, Share(None, client_id)),
        ):
            bound = bounds.get(tuple(part for part in (its_client, its_user) if part is not None))
            if bound is not None:
                return Limit(bound, share)
        return None

    def find_address(self, address: str) -> float | None:
        """How many connections a second an address may open, or None if nothing limits it."""
        bound = self._bounds.get(((IP, canonical_address(address)),))
        return self._bounds.get(((IP, None),)) if bound is None else bound


class TokenBucket:
    """An allowance that fills at the rate of the quota; an unused one is full.

    What it holds is told in seconds of the quota, because the quota may change while it is in use.
    """

    __slots__ = ("_capacity_seconds", "_tokens", "_updated_ms")

    def __init__(self, capacity_seconds: float) -> None:
        self._capacity_seconds = capacity_seconds
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def measure(self, bound: float, now_ms: int) -> float:
        """The tokens that are left; less than none after it was overdrawn."""
        capacity = bound * self._capacity_seconds
        if self._updated_ms is None:
            self._tokens = capacity
        else:
            self._tokens = min(capacity, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take what was used; a negative value gives back what was not used after all."""
        self._tokens = min(bound * self._capacity_seconds, self.measure(bound, now_ms) - value)

    def is_full(self, bound: float, now_ms: int) -> bool:
        """Whether nothing is lost if the bucket is forgotten."""
        return self.measure(bound, now_ms) >= bound * self._capacity_seconds

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long to wait until nothing is overdrawn."""
        tokens = self.measure(bound, now_ms)
        return _rounded(-tokens / bound * 1000) if tokens < 0 else 0


def canonical_address(text: str) -> str | None:
    """An address as it is always written, or None if it is none; IPv4 in the guise of IPv6 is IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _canonical(entity: QuotaEntity) -> QuotaEntity:
    return tuple((kind, (canonical_address(name) or name) if kind == IP and name else name) for kind, name in entity)


def _rounded(milliseconds: float) -> int:
    """Halves are rounded up, as Java does."""
    return min(floor(milliseconds + 0.5), MAX_THROTTLE_MS)
