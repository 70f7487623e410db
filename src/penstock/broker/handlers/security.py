"""SASL, ACLs, delegation tokens, SCRAM credentials and client quotas, on a broker that authenticates nobody.

These are the answers of a Kafka broker that is set up that way: SASL is out of place on a plaintext listener, ACLs are
disabled without an authorizer, tokens are not given over plaintext. There are no SCRAM credentials and no quotas;
asking to set some is refused, because accepting what is then not enforced would be a false promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.server import Broker

_NO_AUTHORIZER = "No Authorizer is configured."
_NO_QUOTAS = "This broker does not enforce client quotas, so it does not take them."
_QUOTA_ENTITIES = ("user", "client-id", "ip")
_EXACT = 0
_QUOTA_MATCHES = (_EXACT, 1, 2)
_NO_SASL = "This broker has no SASL listener, so it does not take credentials."


def handle_sasl_handshake(broker: Broker, request: Request) -> m.SaslHandshakeResponse:
    return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def handle_sasl_authenticate(broker: Broker, request: Request) -> m.SaslAuthenticateResponse:
    return m.SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


def handle_describe_acls(broker: Broker, request: Request) -> m.DescribeAclsResponse:
    return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER)


def handle_create_acls(broker: Broker, request: Request) -> m.CreateAclsResponse:
    body = request.body
    assert isinstance(body, m.CreateAclsRequest)
    refused = m.CreateAclsResponse.AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
    )
    return m.CreateAclsResponse(results=[refused] * len(body.creations))


def handle_delete_acls(broker: Broker, request: Request) -> m.DeleteAclsResponse:
    body = request.body
    assert isinstance(body, m.DeleteAclsRequest)
    refused = m.DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
    )
    return m.DeleteAclsResponse(filter_results=[refused] * len(body.filters))


def handle_create_delegation_token(broker: Broker, request: Request) -> m.CreateDelegationTokenResponse:
    return m.CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def handle_renew_delegation_token(broker: Broker, request: Request) -> m.RenewDelegationTokenResponse:
    return m.RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


def handle_expire_delegation_token(broker: Broker, request: Request) -> m.ExpireDelegationTokenResponse:
    return m.ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


def handle_describe_delegation_token(broker: Broker, request: Request) -> m.DescribeDelegationTokenResponse:
    return m.DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def handle_describe_user_scram_credentials(broker: Broker, request: Request) -> m.DescribeUserScramCredentialsResponse:
    body = request.body
    assert isinstance(body, m.DescribeUserScramCredentialsRequest)
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


def handle_alter_user_scram_credentials(broker: Broker, request: Request) -> m.AlterUserScramCredentialsResponse:
    body = request.body
    assert isinstance(body, m.AlterUserScramCredentialsRequest)
    response = m.AlterUserScramCredentialsResponse
    deletions = dict.fromkeys(deletion.name for deletion in body.deletions)
    upsertions = dict.fromkeys(upsertion.name for upsertion in body.upsertions)
    refused = [(name, ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NO_SASL) for name in upsertions]
    absent = "Attempt to delete a user credential that does not exist"
    refused += [(name, ErrorCode.RESOURCE_NOT_FOUND, absent) for name in deletions if name not in upsertions]
    return response(
        results=[
            response.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)
            for name, code, text in refused
        ]
    )


def handle_describe_client_quotas(broker: Broker, request: Request) -> m.DescribeClientQuotasResponse:
    body = request.body
    assert isinstance(body, m.DescribeClientQuotasRequest)
    for component in body.components:
        code, wrong = ErrorCode.INVALID_REQUEST, ""
        if component.entity_type not in _QUOTA_ENTITIES:
            code, wrong = ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas of a {component.entity_type}."
        elif component.match_type not in _QUOTA_MATCHES:
            wrong = f"There is no match type {component.match_type}."
        elif component.match_type == _EXACT and component.match is None:
            wrong = "An exact match needs a name."
        if wrong:
            return m.DescribeClientQuotasResponse(error_code=code, error_message=wrong, entries=None)
    return m.DescribeClientQuotasResponse(entries=[])


def handle_alter_client_quotas(broker: Broker, request: Request) -> m.AlterClientQuotasResponse:
    body = request.body
    assert isinstance(body, m.AlterClientQuotasRequest)
    response = m.AlterClientQuotasResponse
    return response(
        entries=[
            response.EntryData(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=_NO_QUOTAS,
                entity=[
                    response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in body.entries
        ]
    )
