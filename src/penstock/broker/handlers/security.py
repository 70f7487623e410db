"""SASL, ACLs, delegation tokens, SCRAM credentials and client quotas, on a broker that authenticates nobody.

These are the answers of a Kafka broker that is set up that way: SASL is out of place on a plaintext listener, ACLs are
disabled without an authorizer, tokens are not given over plaintext. There are no SCRAM credentials and no quotas;
asking to set some is refused, because accepting what is then not enforced would be a false promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from penstock.broker.requests import Request
from penstock.coordination.context import ANONYMOUS_USER
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_NO_AUTHORIZER = "No Authorizer is configured."
_NO_QUOTAS = "This broker does not enforce client quotas, so it does not take them."
_QUOTA_ENTITIES = ("user", "client-id", "ip")
_EXACT = 0
_QUOTA_MATCHES = (_EXACT, 1, 2)
_FEWEST_ITERATIONS = {1: 4096, 2: 4096}
"""By mechanism: SCRAM-SHA-256 and SCRAM-SHA-512."""
_MOST_ITERATIONS = 16384
_NO_SASL = "This broker has no SASL listener, so it does not take credentials."


class SecurityHandlers:
    def sasl_handshake(self, request: Request[m.SaslHandshakeRequest]) -> m.SaslHandshakeResponse:
        return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    def sasl_authenticate(self, request: Request[m.SaslAuthenticateRequest]) -> m.SaslAuthenticateResponse:
        return m.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )

    def describe_acls(self, request: Request[m.DescribeAclsRequest]) -> m.DescribeAclsResponse:
        return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER)

    def create_acls(self, request: Request[m.CreateAclsRequest]) -> m.CreateAclsResponse:
        body = request.body
        refused = m.CreateAclsResponse.AclCreationResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
        )
        return m.CreateAclsResponse(results=[refused] * len(body.creations))

    def delete_acls(self, request: Request[m.DeleteAclsRequest]) -> m.DeleteAclsResponse:
        body = request.body
        refused = m.DeleteAclsResponse.DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
        )
        return m.DeleteAclsResponse(filter_results=[refused] * len(body.filters))

    def create_delegation_token(
        self, request: Request[m.CreateDelegationTokenRequest]
    ) -> m.CreateDelegationTokenResponse:
        body = request.body
        owner = body.owner_principal_name
        return m.CreateDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            principal_type=(body.owner_principal_type or "") if owner else "User",
            principal_name=owner or ANONYMOUS_USER,
            token_requester_principal_type="User",
            token_requester_principal_name=ANONYMOUS_USER,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )

    def renew_delegation_token(self, request: Request[m.RenewDelegationTokenRequest]) -> m.RenewDelegationTokenResponse:
        return m.RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
        )

    def expire_delegation_token(
        self, request: Request[m.ExpireDelegationTokenRequest]
    ) -> m.ExpireDelegationTokenResponse:
        return m.ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
        )

    def describe_delegation_token(
        self, request: Request[m.DescribeDelegationTokenRequest]
    ) -> m.DescribeDelegationTokenResponse:
        return m.DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    def describe_user_scram_credentials(
        self, request: Request[m.DescribeUserScramCredentialsRequest]
    ) -> m.DescribeUserScramCredentialsResponse:
        body = request.body
        names = [user.name for user in body.users or []]
        response = m.DescribeUserScramCredentialsResponse()
        for name in dict.fromkeys(names):
            result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(user=name)
            if names.count(name) > 1:
                result.error_code = ErrorCode.DUPLICATE_RESOURCE
                result.error_message = (
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                )
            else:
                result.error_code = ErrorCode.RESOURCE_NOT_FOUND
                result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
            response.results.append(result)
        return response

    def alter_user_scram_credentials(
        self, request: Request[m.AlterUserScramCredentialsRequest]
    ) -> m.AlterUserScramCredentialsResponse:
        body = request.body
        response = m.AlterUserScramCredentialsResponse
        refused: dict[str, tuple[ErrorCode, str]] = {}
        for deletion in body.deletions:
            absent = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            refused.setdefault(deletion.name, _misnamed(deletion.name, deletion.mechanism) or absent)
        times = Counter((upsertion.name, upsertion.mechanism) for upsertion in body.upsertions)
        for upsertion in body.upsertions:
            wrong = _misnamed(upsertion.name, upsertion.mechanism)
            if (
                wrong is None
                and not _FEWEST_ITERATIONS[upsertion.mechanism] <= upsertion.iterations <= _MOST_ITERATIONS
            ):
                wrong = (
                    ErrorCode.UNACCEPTABLE_CREDENTIAL,
                    f"{upsertion.iterations} iterations are too few or too many.",
                )
            if wrong is None and times[upsertion.name, upsertion.mechanism] > 1:
                wrong = (ErrorCode.DUPLICATE_RESOURCE, "One credential cannot be altered twice in a single request.")
            refused.setdefault(upsertion.name, wrong or (ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NO_SASL))
        return response(
            results=[
                response.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)
                for name, (code, text) in refused.items()
            ]
        )

    def describe_client_quotas(self, request: Request[m.DescribeClientQuotasRequest]) -> m.DescribeClientQuotasResponse:
        body = request.body
        for component in body.components:
            code, wrong = ErrorCode.INVALID_REQUEST, ""
            if not component.entity_type:
                wrong = "A quota belongs to a user, a client id or an address."
            elif component.entity_type not in _QUOTA_ENTITIES:
                code, wrong = ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas of a {component.entity_type}."
            elif component.match_type not in _QUOTA_MATCHES:
                wrong = f"There is no match type {component.match_type}."
            elif component.match_type == _EXACT and component.match is None:
                wrong = "An exact match needs a name."
            if wrong:
                return m.DescribeClientQuotasResponse(error_code=code, error_message=wrong, entries=None)
        return m.DescribeClientQuotasResponse(entries=[])

    def alter_client_quotas(self, request: Request[m.AlterClientQuotasRequest]) -> m.AlterClientQuotasResponse:
        """There is nothing to take away, which succeeds; what would set a quota is refused, even if only tried."""
        body = request.body
        answer = m.AlterClientQuotasResponse()
        alterations: dict[frozenset[tuple[str, str | None]], list[m.AlterClientQuotasRequest.OpData]] = {}
        for asked in body.entries:  # of two entities of one type, and of two entries for the same, the last one counts
            named = {part.entity_type: part.entity_name for part in asked.entity}
            alterations[frozenset(named.items())] = asked.ops
        for parts, ops in alterations.items():
            entity = dict(parts)
            entry = m.AlterClientQuotasResponse.EntryData(
                entity=[
                    m.AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ]
            )
            answer.entries.append(entry)
            entry.error_message = _wrong_entity(entity) or (None if all(op.remove for op in ops) else _NO_QUOTAS)
            if entry.error_message is not None:
                entry.error_code = ErrorCode.INVALID_REQUEST
        return answer


def _misnamed(user: str, mechanism: int) -> tuple[ErrorCode, str] | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user has a name."
    if mechanism not in _FEWEST_ITERATIONS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {mechanism}."
    return None


def _wrong_entity(entity: Mapping[str, str | None]) -> str | None:
    unknown = [kind for kind in entity if kind not in _QUOTA_ENTITIES]
    if unknown:
        return f"There are no quotas of a {unknown[0]}."
    if not entity or ("ip" in entity and len(entity) > 1):
        return "A quota belongs to a user, a client id, both, or an address."
    if "" in entity.values():
        return "The name of who a quota belongs to is empty."
    return None
