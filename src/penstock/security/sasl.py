"""The order in which a connection goes through SASL, on the broker's side.

A client may ask for the API versions first, once with success. Then it names a mechanism (SaslHandshake) and the
mechanism's messages follow: inside of SaslAuthenticate after a handshake of version 1, as bare frames without Kafka's
headers after version 0. When the mechanism has succeeded the connection takes every request. With a later handshake of
version 1 the client authenticates anew on the same connection (KIP-368): as the same principal with the same mechanism.
Anything else, at any time, is out of order and ends the connection.

The tables are the whole truth: what is not in them is out of order.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    INITIAL = "nothing has been said"
    VERSIONS_KNOWN = "the client has asked for the API versions"
    EXCHANGE = "messages of the mechanism travel in SaslAuthenticate"
    BARE_EXCHANGE = "messages of the mechanism travel as bare frames"
    AUTHENTICATED = "every request is taken"
    REAUTHENTICATION = "messages of the mechanism travel in SaslAuthenticate, in a session that goes on if they succeed"
    FAILED = "nothing more is read"


class Event(Enum):
    API_VERSIONS = "ApiVersions, answered"
    API_VERSIONS_REFUSED = "ApiVersions of an unsupported version or with bad content, answered with an error"
    HANDSHAKE = "SaslHandshake of version 1 with a mechanism that is enabled"
    HANDSHAKE_V0 = "SaslHandshake of version 0 with a mechanism that is enabled"
    TOKEN = "SaslAuthenticate"
    BARE_TOKEN = "a bare message of the mechanism"
    SUCCESS = "the mechanism has succeeded"
    FAILURE = "the mechanism has failed, or an unsupported mechanism was named"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.INITIAL: {
        Event.API_VERSIONS: State.VERSIONS_KNOWN,
        Event.API_VERSIONS_REFUSED: State.INITIAL,
        Event.HANDSHAKE: State.EXCHANGE,
        Event.HANDSHAKE_V0: State.BARE_EXCHANGE,
        Event.FAILURE: State.FAILED,
    },
    State.VERSIONS_KNOWN: {
        Event.HANDSHAKE: State.EXCHANGE,
        Event.HANDSHAKE_V0: State.BARE_EXCHANGE,
        Event.FAILURE: State.FAILED,
    },
    State.EXCHANGE: {
        Event.TOKEN: State.EXCHANGE,
        Event.SUCCESS: State.AUTHENTICATED,
        Event.FAILURE: State.FAILED,
    },
    State.BARE_EXCHANGE: {
        Event.BARE_TOKEN: State.BARE_EXCHANGE,
        Event.SUCCESS: State.AUTHENTICATED,
        Event.FAILURE: State.FAILED,
    },
    State.AUTHENTICATED: {
        Event.HANDSHAKE: State.REAUTHENTICATION,
        Event.FAILURE: State.FAILED,
    },
    State.REAUTHENTICATION: {
        Event.TOKEN: State.REAUTHENTICATION,
        Event.SUCCESS: State.AUTHENTICATED,
        Event.FAILURE: State.FAILED,
    },
    State.FAILED: {},
}


class OutOfOrder(Exception):
    """The client sent what it may not send now."""


def after(state: State, event: Event) -> State:
    """The state that follows. Raises OutOfOrder if the event has no place in this one."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise OutOfOrder(f"{event.value}, while {state.value}")
    return following


def session_lifetime_ms(now_ms: int, expires_at_ms: int | None, max_reauth_ms: int) -> int:
    """For how long a session lasts before the client has to authenticate anew; 0 means without limit.

    A token's expiry and `connections.max.reauth.ms` limit it, whichever comes first, of those that are set.
    """
    limits = [max_reauth_ms] if max_reauth_ms > 0 else []
    if expires_at_ms is not None:
        limits.append(max(1, expires_at_ms - now_ms))
    return min(limits, default=0)
