"""The order of SASL: the tables, and how long a session lasts."""

from __future__ import annotations

import pytest

from penstock.security.sasl import TRANSITIONS, Event, OutOfOrder, State, after, session_lifetime_ms


def follow(*events: Event) -> State:
    state = State.INITIAL
    for event in events:
        state = after(state, event)
    return state


def test_versions_handshake_and_tokens_lead_to_an_authenticated_connection() -> None:
    assert follow(Event.API_VERSIONS, Event.HANDSHAKE, Event.TOKEN, Event.TOKEN, Event.SUCCESS) is State.AUTHENTICATED


def test_the_versions_need_not_be_asked_for_and_bare_tokens_follow_an_old_handshake() -> None:
    assert follow(Event.HANDSHAKE_V0, Event.BARE_TOKEN, Event.SUCCESS) is State.AUTHENTICATED


def test_the_versions_may_be_asked_for_again_after_a_refusal_only() -> None:
    assert follow(Event.API_VERSIONS_REFUSED, Event.API_VERSIONS) is State.VERSIONS_KNOWN
    with pytest.raises(OutOfOrder):
        follow(Event.API_VERSIONS, Event.API_VERSIONS)


@pytest.mark.parametrize(
    "events",
    [
        (Event.TOKEN,),
        (Event.API_VERSIONS, Event.TOKEN),
        (Event.HANDSHAKE, Event.HANDSHAKE),
        (Event.HANDSHAKE, Event.API_VERSIONS),
        (Event.HANDSHAKE, Event.BARE_TOKEN),
        (Event.HANDSHAKE_V0, Event.TOKEN),
        (Event.HANDSHAKE, Event.TOKEN, Event.SUCCESS, Event.TOKEN),
        (Event.HANDSHAKE, Event.TOKEN, Event.SUCCESS, Event.HANDSHAKE_V0),
        (Event.HANDSHAKE, Event.FAILURE, Event.HANDSHAKE),
    ],
)
def test_what_comes_out_of_order_is_refused(events: tuple[Event, ...]) -> None:
    with pytest.raises(OutOfOrder):
        follow(*events)


def test_a_connection_authenticates_anew_with_a_second_handshake() -> None:
    authenticated = follow(Event.HANDSHAKE, Event.TOKEN, Event.SUCCESS)
    again = after(after(authenticated, Event.HANDSHAKE), Event.TOKEN)
    assert again is State.REAUTHENTICATION
    assert after(again, Event.SUCCESS) is State.AUTHENTICATED


def test_only_success_leads_to_an_authenticated_connection_and_nothing_leads_out_of_failure() -> None:
    for state, following in TRANSITIONS.items():
        for event, next_state in following.items():
            if next_state is State.AUTHENTICATED:
                assert event is Event.SUCCESS
                assert state in (State.EXCHANGE, State.BARE_EXCHANGE, State.REAUTHENTICATION)
    assert not TRANSITIONS[State.FAILED]
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize(
    ("expires_at_ms", "max_reauth_ms", "lifetime_ms"),
    [
        (None, 0, 0),
        (None, 60_000, 60_000),
        (1_010_000, 0, 10_000),
        (1_010_000, 60_000, 10_000),
        (1_090_000, 60_000, 60_000),
    ],
)
def test_a_session_lasts_as_long_as_the_first_of_its_limits(
    expires_at_ms: int | None, max_reauth_ms: int, lifetime_ms: int
) -> None:
    assert session_lifetime_ms(1_000_000, expires_at_ms, max_reauth_ms) == lifetime_ms


def test_a_token_that_expires_within_the_clock_skew_still_limits_its_session() -> None:
    assert session_lifetime_ms(1_000_000, 999_000, 0) == 1
