"""Delegation tokens where they are off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.security.protocols import SecurityProtocol
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, Client, GuardedBroker
from tests.transactions.wire_client import Wire

NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class TestDelegationTokens:
    def test_none_is_given_over_plaintext(self, wire: Wire) -> None:
        created = wire.ask(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), m.CreateDelegationTokenResponse, 3)
        assert (created.error_code, created.hmac) == (NO_TOKENS, b"")
        assert (created.principal_type, created.principal_name) == ("User", "ANONYMOUS")

    def test_nor_renewed_expired_or_described(self, wire: Wire) -> None:
        renewed = wire.ask(m.RenewDelegationTokenRequest(hmac=b"x"), m.RenewDelegationTokenResponse, 2)
        expired = wire.ask(m.ExpireDelegationTokenRequest(hmac=b"x"), m.ExpireDelegationTokenResponse, 2)
        described = wire.ask(m.DescribeDelegationTokenRequest(owners=None), m.DescribeDelegationTokenResponse, 3)
        assert {renewed.error_code, expired.error_code, described.error_code} == {NO_TOKENS}


class TestSomebodyKnown:
    """Over a connection with SASL the answer is that there are no tokens."""

    @pytest.fixture
    def alice(self) -> Iterator[Client]:
        with GuardedBroker() as broker:
            alice = broker.connect(ALICE)
            for connection in broker.memory.parts.dispatcher.connections:
                connection.protocol = SecurityProtocol.SASL_PLAINTEXT
            yield alice

    def test_learns_that_tokens_are_off(self, alice: Client) -> None:
        created = alice.ask(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), m.CreateDelegationTokenResponse, 3)
        assert (created.error_code, created.principal_name) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "alice")
        assert (created.issue_timestamp_ms, created.max_timestamp_ms) == (0, 0)
        described = alice.ask(m.DescribeDelegationTokenRequest(), m.DescribeDelegationTokenResponse, 3)
        assert described.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    def test_needs_create_tokens_for_somebody_else(self, alice: Client) -> None:
        request = m.CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
        )
        created = alice.ask(request, m.CreateDelegationTokenResponse, 3)
        assert created.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
