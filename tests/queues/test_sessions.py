"""The epoch rules of share sessions."""

from __future__ import annotations

import pytest

from penstock.queues.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, ShareSessions, check_ids, next_epoch
from penstock.wire.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

A, B, C = (b"a" * 16, 0), (b"a" * 16, 1), (b"b" * 16, 0)


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *added: tuple[bytes, int],
    forgotten: tuple[tuple[bytes, int], ...] = (),
    member: str = "m",
    connection: object = "c1",
    acks: bool = False,
    max_sessions: int = 10,
) -> ShareSession:
    return sessions.fetch(
        "g",
        member,
        epoch,
        connection,
        added=added,
        forgotten=forgotten,
        has_acknowledgements=acks,
        max_sessions=max_sessions,
    )


def test_epoch_zero_opens_and_each_request_raises_the_epoch() -> None:
    sessions = ShareSessions()
    session = fetch(sessions, 0, A, B)
    assert (session.epoch, list(session.partitions)) == (1, [A, B])
    assert fetch(sessions, 1, C, forgotten=(A,)) is session
    assert list(session.partitions) == [B, C]
    assert sessions.acknowledge("g", "m", 2) is session
    assert session.epoch == 3


def test_the_first_request_cannot_acknowledge() -> None:
    with pytest.raises(InvalidRequest):
        fetch(ShareSessions(), INITIAL_EPOCH, A, acks=True)


def test_acknowledging_cannot_open_a_session() -> None:
    with pytest.raises(InvalidShareSessionEpoch):
        ShareSessions().acknowledge("g", "m", INITIAL_EPOCH)


@pytest.mark.parametrize("epoch", [1, FINAL_EPOCH])
def test_a_later_request_needs_a_session(epoch: int) -> None:
    with pytest.raises(ShareSessionNotFound):
        fetch(ShareSessions(), epoch, A)
    with pytest.raises(ShareSessionNotFound):
        ShareSessions().acknowledge("g", "m", epoch)


@pytest.mark.parametrize("epoch", [0 + 2, 7])
def test_a_wrong_epoch_is_refused_and_changes_nothing(epoch: int) -> None:
    sessions = ShareSessions()
    session = fetch(sessions, 0, A)
    with pytest.raises(InvalidShareSessionEpoch):
        fetch(sessions, epoch, B)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.acknowledge("g", "m", epoch)
    assert (session.epoch, list(session.partitions)) == (1, [A])


def test_the_epoch_wraps_around_to_one() -> None:
    assert next_epoch(2**31 - 1) == 1


def test_opening_again_replaces_the_session() -> None:
    sessions = ShareSessions()
    old = fetch(sessions, 0, A)
    new = fetch(sessions, 0, B, max_sessions=1)
    assert (len(sessions), sessions.get("g", "m")) == (1, new)
    assert not sessions.close(old)


def test_the_number_of_sessions_is_bounded() -> None:
    sessions = ShareSessions()
    fetch(sessions, 0, A, max_sessions=1)
    with pytest.raises(ShareSessionLimitReached):
        fetch(sessions, 0, A, member="other", max_sessions=1)


def test_a_disconnect_ends_the_sessions_of_that_connection_only() -> None:
    sessions = ShareSessions()
    fetch(sessions, 0, A, connection="c1")
    renewed = fetch(sessions, 0, A, connection="c2")
    other = fetch(sessions, 0, A, member="other", connection="c1")
    assert sessions.disconnected("c1") == [other]
    assert sessions.get("g", "m") is renewed
    assert sessions.disconnected("c1") == []


def test_a_response_names_new_partitions_news_and_errors() -> None:
    session = fetch(ShareSessions(), 0, A, B)
    assert session.answered(A, has_records=False, has_error=False)
    assert not session.answered(A, has_records=False, has_error=False)
    assert session.answered(B, has_records=False, has_error=True)
    assert session.answered(B, has_records=False, has_error=False), "the end of an error is news"
    assert session.answered(A, has_records=True, has_error=False)


def test_a_partition_that_was_served_goes_to_the_end() -> None:
    session = fetch(ShareSessions(), 0, A, B, C)
    session.answered(A, has_records=True, has_error=False)
    assert list(session.partitions) == [B, C, A]
    assert session.in_fetch_order() == [C, A, B]


@pytest.mark.parametrize(("group", "member"), [(None, "m"), ("g", None), ("g", ""), ("g", "x" * 37)])
def test_ids_are_checked(group: str | None, member: str | None) -> None:
    with pytest.raises(InvalidRequest):
        check_ids(group, member)


def test_ids_of_the_greatest_length_are_accepted() -> None:
    assert check_ids("g", "x" * 36) == ("g", "x" * 36)


def test_two_partitions_take_turns_with_the_epoch() -> None:
    sessions = ShareSessions()
    session = fetch(sessions, 0, A, B)
    assert session.in_fetch_order() == [B, A]
    fetch(sessions, 1)
    assert session.in_fetch_order() == [A, B]


def test_forgetting_what_was_never_added_is_fine() -> None:
    session = fetch(ShareSessions(), 0, A, forgotten=())
    session.update((), (B,))
    assert list(session.partitions) == [A]


@pytest.mark.parametrize(("has_records", "has_error"), [(True, False), (False, True), (False, False)])
def test_a_partition_outside_of_the_session_is_named_when_there_is_something_to_say(
    has_records: bool, has_error: bool
) -> None:
    session = fetch(ShareSessions(), 0, A)
    assert session.answered(B, has_records=has_records, has_error=has_error) == (has_records or has_error)
    assert list(session.partitions) == [A]


def test_the_sessions_of_a_group_are_counted_as_they_come_and_go() -> None:
    sessions = ShareSessions()
    opened = [fetch(sessions, 0, A, B, member=member) for member in ("m", "n", "o")]
    assert (sessions.all(), sessions.partitions(), sessions.in_group("g"), sessions.in_group("h")) == (opened, 6, 3, 0)
    assert sessions.close(opened[0])
    assert (sessions.all(), sessions.partitions(), sessions.in_group("g")) == (opened[1:], 4, 2)
    assert sessions.disconnected("c1") == opened[1:], "the connection still has its other sessions"
    assert sessions.in_group("g") == 0


def test_what_is_closed_leaves_nothing_behind() -> None:
    sessions = ShareSessions()
    sessions.close(fetch(sessions, 0, A))
    assert (sessions._by_connection, sessions._in_group) == ({}, {})
