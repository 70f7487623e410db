"""SASL on a listener without it."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire


class TestSasl:
    def test_it_is_out_of_place_on_a_plaintext_listener(self, wire: Wire) -> None:
        handshake = wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslHandshakeResponse, 1)
        authenticated = wire.ask(m.SaslAuthenticateRequest(auth_bytes=b"x"), m.SaslAuthenticateResponse, 2)
        assert handshake.error_code == authenticated.error_code == ErrorCode.ILLEGAL_SASL_STATE

    def test_the_connection_is_served_as_before(self, wire: Wire, topic: str) -> None:
        wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslHandshakeResponse, 1)
        assert wire.fetch(topic) == []
