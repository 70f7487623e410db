"""DescribeUserScramCredentials and AlterUserScramCredentials: the users of this broker.

Describing needs DESCRIBE on the cluster, changing needs ALTER. Credentials may be set before any listener has SASL, so
that there are users when it is switched on. Each user in a request succeeds or fails on their own, and may be named
once in a change, whatever the mechanism, as on Kafka. Clients send salted passwords: what is stored cannot be used to
log in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Request
from penstock.catalog.contract import CredentialRow
from penstock.security import scram
from penstock.security.scram import ScramMechanism
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import (
    ClusterAuthorizationFailed,
    DuplicateResource,
    ErrorCode,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)

if TYPE_CHECKING:
    from penstock.broker.credentials import Users
    from penstock.broker.gate import Gate

_Deletion = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_MECHANISMS = frozenset(ScramMechanism)
_NOT_FOUND = "Attempt to delete a user credential that does not exist"


class ScramCredentialHandlers:
    def __init__(self, users: Users, gate: Gate) -> None:
        self._users = users
        self._gate = gate

    def describe_user_scram_credentials(
        self, request: Request[m.DescribeUserScramCredentialsRequest]
    ) -> m.DescribeUserScramCredentialsResponse:
        response = m.DescribeUserScramCredentialsResponse
        named = [user.name for user in request.body.users or []]
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            refused = response.DescribeUserScramCredentialsResult(error_code=code)
            return response(error_code=code, results=[refused] * len(named))
        times = {name: named.count(name) for name in named} or dict.fromkeys(self._users.names(), 1)
        return response(results=[self._described(name, count) for name, count in times.items()])

    def _described(
        self, name: str, times: int
    ) -> m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
        response = m.DescribeUserScramCredentialsResponse
        result = response.DescribeUserScramCredentialsResult(user=name)
        iterations = self._users.iterations(name)
        if times > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif not iterations:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            result.credential_infos = [
                response.CredentialInfo(mechanism=mechanism, iterations=count)
                for mechanism, count in iterations.items()
            ]
        return result

    def alter_user_scram_credentials(
        self, request: Request[m.AlterUserScramCredentialsRequest]
    ) -> m.AlterUserScramCredentialsResponse:
        body = request.body
        changes: list[_Deletion | _Upsertion] = [*body.deletions, *body.upsertions]
        if not self._gate.allows_on_cluster(request, AclOperation.ALTER):
            denied = ClusterAuthorizationFailed()
            return _answer(dict.fromkeys(sorted({each.name for each in changes}), denied))
        deleted: dict[str, _Deletion] = {}
        upserted: dict[str, _Upsertion] = {}
        refused: dict[str, KafkaError] = {}
        for each in changes:
            name = each.name
            if name in refused:
                continue
            try:
                twice = deleted.pop(name, None)
                if twice is not None and self._users.find(name, ScramMechanism(twice.mechanism)) is None:
                    raise ResourceNotFound(_NOT_FOUND)
                if twice is not None or upserted.pop(name, None) is not None:
                    raise DuplicateResource("A user credential cannot be altered twice in the same request")
                _check_name(name, each.mechanism)
                if isinstance(each, _Upsertion):
                    _check_iterations(each.iterations)
                    if not each.salted_password:
                        raise UnacceptableCredential("Salted password must not be empty")
                    upserted[name] = each
                else:
                    deleted[name] = each
            except KafkaError as error:
                refused[name] = error
        outcomes: dict[str, KafkaError | None] = dict.fromkeys([*deleted, *upserted])
        try:
            # Whom there is to delete the catalog knows: another broker may have added or deleted somebody a moment ago.
            missing = self._users.change(
                [_row(each) for each in upserted.values()],
                [(each.name, ScramMechanism(each.mechanism)) for each in deleted.values()],
            )
        except KafkaError as error:
            outcomes = dict.fromkeys(outcomes, error)
        else:
            for name in missing:
                del outcomes[name]
                refused[name] = ResourceNotFound(_NOT_FOUND)
        return _answer({**outcomes, **refused})


def _check_name(name: str, mechanism: int) -> None:
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    if mechanism not in _MECHANISMS:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")


def _check_iterations(iterations: int) -> None:
    if iterations < scram.MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if iterations > scram.MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")


def _row(each: _Upsertion) -> CredentialRow:
    mechanism, salt = ScramMechanism(each.mechanism), bytes(each.salt)
    credential = scram.credential_of_salted(mechanism, bytes(each.salted_password), salt, each.iterations)
    return CredentialRow(each.name, mechanism, each.iterations, salt, credential.stored_key, credential.server_key)


def _answer(errors: dict[str, KafkaError | None]) -> m.AlterUserScramCredentialsResponse:
    response = m.AlterUserScramCredentialsResponse
    return response(
        results=[
            response.AlterUserScramCredentialsResult(
                user=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in errors.items()
        ]
    )
