"""SCRAM credentials."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire

NOT_FOUND, DUPLICATE = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
SHA_256, SHA_512 = 1, 2


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
