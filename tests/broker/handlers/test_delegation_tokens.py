"""Delegation tokens where they are off."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
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
