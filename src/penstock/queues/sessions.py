"""Share sessions: which partitions a member fetches from this broker, and in which order its requests come.

A session belongs to one member of one group on one broker. It spares the client the list of partitions in each request,
and its epoch puts the requests in order: each accepted request raises it by one, ShareFetch and ShareAcknowledge alike,
so that at most one of them is under way. Epoch 0 opens a session (only ShareFetch may), -1 closes it.

=========================  ==================================  =============================================
request                    condition                           outcome
=========================  ==================================  =============================================
ShareFetch, epoch 0        acknowledgements come with it       INVALID_REQUEST
ShareFetch, epoch 0        the broker's sessions are used up   SHARE_SESSION_LIMIT_REACHED
ShareFetch, epoch 0        otherwise                           a new session takes the place of an old one
either, epoch N or -1      no session                          SHARE_SESSION_NOT_FOUND
ShareAcknowledge, epoch 0  always                              INVALID_SHARE_SESSION_EPOCH
either, epoch N            N is not the expected epoch         INVALID_SHARE_SESSION_EPOCH
either, epoch -1           a session                           acknowledges, then closes; no epoch to match
=========================  ==================================  =============================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeAlias

from penstock.wire.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
MAX_MEMBER_ID_LENGTH = 36

TopicIdPartition: TypeAlias = tuple[bytes, int]


def next_epoch(epoch: int) -> int:
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class ShareSession:
    """`partitions` keeps the order of service: who was served goes to the end."""

    __slots__ = ("connection", "epoch", "group_id", "member_id", "partitions")

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[TopicIdPartition, bool] = {}
        """True for a partition that the next response must mention: newly added, or in error the last time."""

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Additions come first, so that a partition named only for its acknowledgements can be forgotten at once."""
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def in_fetch_order(self) -> list[TopicIdPartition]:
        """Rotated by the epoch, so that no partition is always asked first."""
        order = list(self.partitions)
        if len(order) > 1:
            turn = self.epoch % len(order)
            order = order[turn:] + order[:turn]
        return order

    def answered(self, partition: TopicIdPartition, *, has_records: bool, has_error: bool) -> bool:
        """Note what a response says about a partition; the result says whether the response must mention it."""
        if partition not in self.partitions:
            return has_records or has_error
        due = self.partitions[partition]
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = has_error
        return due or has_records or has_error


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[object, dict[tuple[str, str], ShareSession]] = {}
        self._in_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def all(self) -> list[ShareSession]:
        return list(self._sessions.values())

    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def in_group(self, group_id: str) -> int:
        """How many sessions a group has."""
        return self._in_group[group_id]

    def fetch(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        connection: object,
        *,
        added: Collection[TopicIdPartition],
        forgotten: Collection[TopicIdPartition],
        has_acknowledgements: bool,
        max_sessions: int,
    ) -> ShareSession:
        """The session that a ShareFetch belongs to, brought up to date by it."""
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise InvalidRequest("The first request of a share session cannot carry acknowledgements.")
            return self._open(group_id, member_id, connection, added, max_sessions)
        session = self._existing(group_id, member_id, epoch)
        if epoch != FINAL_EPOCH:
            session.update(added, forgotten)
            session.epoch = next_epoch(session.epoch)
        return session

    def acknowledge(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session that a ShareAcknowledge belongs to, its epoch moved on."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("A share session is opened by ShareFetch, not by ShareAcknowledge.")
        session = self._existing(group_id, member_id, epoch)
        if epoch != FINAL_EPOCH:
            session.epoch = next_epoch(session.epoch)
        return session

    def close(self, session: ShareSession) -> bool:
        """Forget a session; False if another has taken its place meanwhile."""
        key = (session.group_id, session.member_id)
        if self._sessions.get(key) is not session:
            return False
        del self._sessions[key]
        self._in_group[session.group_id] -= 1
        if not self._in_group[session.group_id]:
            del self._in_group[session.group_id]
        of_connection = self._by_connection.get(session.connection)
        if of_connection is not None and of_connection.get(key) is session:
            del of_connection[key]
            if not of_connection:
                del self._by_connection[session.connection]
        return True

    def disconnected(self, connection: object) -> list[ShareSession]:
        """Close the sessions that this connection opened. One that was opened anew elsewhere lives (KAFKA-19950)."""
        closed = list(self._by_connection.get(connection, {}).values())
        for session in closed:
            self.close(session)
        return closed

    def _open(
        self,
        group_id: str,
        member_id: str,
        connection: object,
        partitions: Iterable[TopicIdPartition],
        max_sessions: int,
    ) -> ShareSession:
        key = (group_id, member_id)
        previous = self._sessions.get(key)
        if previous is not None:
            self.close(previous)
        if len(self._sessions) >= max_sessions:
            raise ShareSessionLimitReached("The broker has no room for another share session.")
        session = ShareSession(group_id, member_id, connection)
        session.update(partitions, ())
        self._sessions[key] = session
        self._in_group[group_id] += 1
        self._by_connection.setdefault(connection, {})[key] = session
        return session

    def _existing(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionNotFound(f"Member {member_id} of group {group_id} has no share session here.")
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise InvalidShareSessionEpoch(f"The share session expects epoch {session.epoch}, not {epoch}.")
        return session


def check_ids(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    if group_id is None:
        raise InvalidRequest("The group id is missing.")
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest(f"A member id has 1 to {MAX_MEMBER_ID_LENGTH} characters.")
    return group_id, member_id
