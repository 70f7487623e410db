"""SCRAM credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.sasl_client import SaslClient, sasl_broker
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
        self,
        wire: Wire,
        *,
        delete: Sequence[tuple[str, int]] = (),
        upsert: Sequence[tuple[str, int, int]] = (),
        password: bytes = b"salted",
    ) -> dict[str, int]:
        request = m.AlterUserScramCredentialsRequest
        deletion, upsertion = request.ScramCredentialDeletion, request.ScramCredentialUpsertion
        body = request(
            deletions=[deletion(name=name, mechanism=mechanism) for name, mechanism in delete],
            upsertions=[upsertion(name, mech, count, b"salt", password) for name, mech, count in upsert],
        )
        answer = wire.ask(body, m.AlterUserScramCredentialsResponse, 0)
        return {each.user: each.error_code for each in answer.results}

    def test_there_are_none(self, wire: Wire) -> None:
        assert self.describe(wire, "a", "b", "b") == {"a": NOT_FOUND, "b": DUPLICATE}

    def test_none_can_be_deleted(self, wire: Wire) -> None:
        assert self.alter(wire, delete=[("a", SHA_256)]) == {"a": NOT_FOUND}

    def test_users_are_kept_before_any_listener_has_sasl(self, wire: Wire) -> None:
        assert self.alter(wire, upsert=[("kept", SHA_512, 4096)]) == {"kept": ErrorCode.NONE}
        assert self.alter(wire, upsert=[("kept", SHA_256, 8192)]) == {"kept": ErrorCode.NONE}
        request = m.DescribeUserScramCredentialsRequest
        answer = wire.ask(request(users=None), m.DescribeUserScramCredentialsResponse, 0)
        (described,) = [each for each in answer.results if each.user == "kept"]
        infos = [(info.mechanism, info.iterations) for info in described.credential_infos]
        assert infos == [(SHA_256, 8192), (SHA_512, 4096)]
        assert self.describe(wire, "kept") == {"kept": ErrorCode.NONE}

    def test_credentials_are_deleted_by_mechanism(self, wire: Wire) -> None:
        self.alter(wire, upsert=[("gone", SHA_512, 4096)])
        assert self.alter(wire, delete=[("gone", SHA_256)]) == {"gone": NOT_FOUND}
        assert self.alter(wire, delete=[("gone", SHA_512)]) == {"gone": ErrorCode.NONE}
        assert self.describe(wire, "gone") == {"gone": NOT_FOUND}

    def test_a_user_is_altered_once_in_a_request_whatever_the_mechanism(self, wire: Wire) -> None:
        assert self.alter(wire, upsert=[("twice", SHA_256, 4096), ("twice", SHA_512, 4096)]) == {"twice": DUPLICATE}
        assert self.describe(wire, "twice") == {"twice": NOT_FOUND}

    def test_one_wrong_user_does_not_hold_up_another(self, wire: Wire) -> None:
        altered = self.alter(wire, upsert=[("fine", SHA_256, 4096), ("wrong", SHA_256, 1)])
        assert altered == {"fine": ErrorCode.NONE, "wrong": ErrorCode.UNACCEPTABLE_CREDENTIAL}

    def test_a_password_is_not_empty(self, wire: Wire) -> None:
        refused = self.alter(wire, upsert=[("a", SHA_256, 4096)], password=b"")
        assert refused == {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}

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


def test_who_has_no_rights_on_the_cluster_neither_sees_nor_changes_users(tmp_path: Path) -> None:
    configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:bob",
    }
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    describe, alter = m.DescribeUserScramCredentialsRequest, m.AlterUserScramCredentialsRequest
    deletion = alter(deletions=[alter.ScramCredentialDeletion(name="bob", mechanism=SHA_256)])
    with sasl_broker(tmp_path, configs) as broker:
        with SaslClient(broker.port) as client:
            client.log_in()
            described = client.ask(describe(), m.DescribeUserScramCredentialsResponse, 0)
            assert (described.error_code, described.results) == (denied, [])
            altered = client.ask(deletion, m.AlterUserScramCredentialsResponse, 0)
            assert [(each.user, each.error_code) for each in altered.results] == [("bob", denied)]
        with SaslClient(broker.port) as client:
            client.log_in("PLAIN", "bob", "hunter2")
            described = client.ask(describe(), m.DescribeUserScramCredentialsResponse, 0)
            assert [each.user for each in described.results] == ["alice", "bob"]
