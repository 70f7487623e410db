"""SASL, ACLs, delegation tokens, SCRAM credentials and quotas, as a broker answers that authenticates nobody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire

NONE, INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
NOT_FOUND, DUPLICATE = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SHA_256, SHA_512 = 1, 2


class TestSasl:
    def test_it_is_out_of_place_on_a_plaintext_listener(self, wire: Wire) -> None:
        handshake = wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslHandshakeResponse, 1)
        authenticated = wire.ask(m.SaslAuthenticateRequest(auth_bytes=b"x"), m.SaslAuthenticateResponse, 2)
        assert handshake.error_code == authenticated.error_code == ErrorCode.ILLEGAL_SASL_STATE

    def test_the_connection_is_served_as_before(self, wire: Wire, topic: str) -> None:
        wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslHandshakeResponse, 1)
        assert wire.fetch(topic) == []


class TestAcls:
    """Without an authorizer each one that is created, deleted or requested is refused."""

    def test_describing(self, wire: Wire) -> None:
        request = m.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        assert wire.ask(request, m.DescribeAclsResponse, 3).error_code == ErrorCode.SECURITY_DISABLED

    def test_creating(self, wire: Wire) -> None:
        acl = m.CreateAclsRequest.AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
        answer = wire.ask(m.CreateAclsRequest(creations=[acl, acl]), m.CreateAclsResponse, 3)
        assert [each.error_code for each in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2

    def test_deleting(self, wire: Wire) -> None:
        matching = m.DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
        answer = wire.ask(m.DeleteAclsRequest(filters=[matching]), m.DeleteAclsResponse, 3)
        assert [each.error_code for each in answer.filter_results] == [ErrorCode.SECURITY_DISABLED]


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


class TestScramCredentials:
    def describe(self, wire: Wire, *users: str) -> dict[str, int]:
        request = m.DescribeUserScramCredentialsRequest
        body = request(users=[request.UserName(name=user) for user in users] or None)
        answer = wire.ask(body, m.DescribeUserScramCredentialsResponse, 0)
        return {each.user: each.error_code for each in answer.results}

    def alter(
        self, wire: Wire, *, delete: Sequence[tuple[str, int]] = (), upsert: Sequence[tuple[str, int, int]] = ()
    ) -> dict[str, int]:
        request = m.AlterUserScramCredentialsRequest
        deletion, upsertion = request.ScramCredentialDeletion, request.ScramCredentialUpsertion
        body = request(
            deletions=[deletion(name=name, mechanism=mechanism) for name, mechanism in delete],
            upsertions=[upsertion(name=name, mechanism=mech, iterations=count) for name, mech, count in upsert],
        )
        answer = wire.ask(body, m.AlterUserScramCredentialsResponse, 0)
        return {each.user: each.error_code for each in answer.results}

    def test_there_are_none(self, wire: Wire) -> None:
        assert self.describe(wire) == {}
        assert self.describe(wire, "a", "b", "b") == {"a": NOT_FOUND, "b": DUPLICATE}

    def test_none_can_be_deleted(self, wire: Wire) -> None:
        assert self.alter(wire, delete=[("a", SHA_256)]) == {"a": NOT_FOUND}

    def test_none_is_taken_because_nothing_would_check_it(self, wire: Wire) -> None:
        assert self.alter(wire, upsert=[("a", SHA_512, 4096)]) == {"a": ErrorCode.UNSUPPORTED_SASL_MECHANISM}

    @pytest.mark.parametrize(
        ("upsertions", "error"),
        [
            ([("", SHA_256, 4096)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
            ([("a", 9, 4096)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            ([("a", SHA_256, 4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
            ([("a", SHA_256, 16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
            ([("a", SHA_256, 4096), ("a", SHA_256, 5000)], DUPLICATE),
        ],
        ids=["no name", "unknown mechanism", "too few iterations", "too many iterations", "twice"],
    )
    def test_wrong_ones_get_the_error_that_they_get_from_kafka(
        self, wire: Wire, upsertions: list[tuple[str, int, int]], error: ErrorCode
    ) -> None:
        assert self.alter(wire, upsert=upsertions) == {upsertions[0][0]: error}


class TestQuotas:
    def describe(self, wire: Wire, kind: str, match_type: int, match: str | None = None) -> tuple[int, object]:
        component = m.DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match_type, match=match)
        answer = wire.ask(m.DescribeClientQuotasRequest(components=[component]), m.DescribeClientQuotasResponse, 1)
        return answer.error_code, answer.entries

    def alter(self, wire: Wire, remove: bool, **entity: str | None) -> int:
        request = m.AlterClientQuotasRequest
        entry = request.EntryData(
            entity=[
                request.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                for kind, name in entity.items()
            ],
            ops=[request.OpData(key="producer_byte_rate", value=1.0, remove=remove)],
        )
        (result,) = wire.ask(request(entries=[entry]), m.AlterClientQuotasResponse, 1).entries
        return result.error_code

    def test_there_are_none(self, wire: Wire) -> None:
        assert self.describe(wire, "user", 2) == (NONE, [])

    @pytest.mark.parametrize(
        ("kind", "match_type", "match", "error"),
        [
            ("", 0, "a", INVALID_REQUEST),
            ("planet", 0, "a", ErrorCode.UNSUPPORTED_VERSION),
            ("user", 7, "a", INVALID_REQUEST),
            ("user", 0, None, INVALID_REQUEST),
        ],
        ids=["no kind", "unknown kind", "unknown match", "exact match of nobody"],
    )
    def test_a_wrong_filter_is_refused(
        self, wire: Wire, kind: str, match_type: int, match: str | None, error: ErrorCode
    ) -> None:
        assert self.describe(wire, kind, match_type, match) == (error, None)

    def test_setting_one_is_refused_because_nothing_would_enforce_it(self, wire: Wire) -> None:
        assert self.alter(wire, False, user="a") == INVALID_REQUEST

    def test_removing_one_succeeds(self, wire: Wire) -> None:
        assert self.alter(wire, True, user="a", client_id=None) == NONE

    def test_removing_one_of_nobody_is_refused(self, wire: Wire) -> None:
        assert self.alter(wire, True) == INVALID_REQUEST
        assert self.alter(wire, True, user="") == INVALID_REQUEST
        assert self.alter(wire, True, user="a", ip="127.0.0.1") == INVALID_REQUEST
        assert self.alter(wire, True, planet="a") == INVALID_REQUEST
