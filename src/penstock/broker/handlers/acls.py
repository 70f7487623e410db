"""DescribeAcls, CreateAcls and DeleteAcls: the rules of the authorizer, read and changed.

Describing needs DESCRIBE on the cluster, changing needs ALTER. Without an authorizer (`authorizer.class.name`) there
are no rules: SECURITY_DISABLED, as on Kafka. Each rule to create and each filter to delete by succeeds or fails on its
own. A change is written to the catalog before it counts, and counts from then on: for what waits at the broker too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.requests import Request
from penstock.broker.storage_errors import changing
from penstock.security.acls import CLUSTER_NAME, AclBinding, AclFilter
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.compiler import MalformedMessage
from penstock.wire.errors import (
    ClusterAuthorizationFailed,
    ErrorCode,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    SecurityDisabled,
)

if TYPE_CHECKING:
    from penstock.broker.gate import Gate
    from penstock.broker.requests import AnyRequest
    from penstock.catalog.contract import Catalog
    from penstock.security.authorizer import Authorizer

_NO_AUTHORIZER = "No Authorizer is configured."
MOST_PER_REQUEST = 10_000
"""Kafka's own limit, which its controller's batches of records set."""
_UNKNOWN = 0
E = TypeVar("E", bound=IntEnum)


class AclHandlers:
    def __init__(self, catalog: Catalog, gate: Gate) -> None:
        self._catalog = catalog
        self._gate = gate

    def describe_acls(self, request: Request[m.DescribeAclsRequest]) -> m.DescribeAclsResponse:
        body = request.body
        _refuse_unknown(body.resource_type_filter, body.pattern_type_filter, body.operation, body.permission_type)
        try:
            authorizer = self._authorizer_for(request, AclOperation.DESCRIBE)
        except KafkaError as error:
            return m.DescribeAclsResponse(error_code=error.code, error_message=error.message)
        acl_filter = _filter(body)
        return m.DescribeAclsResponse(
            resources=_by_resource(authorizer.matching(acl_filter)) if acl_filter is not None else []
        )

    def create_acls(self, request: Request[m.CreateAclsRequest]) -> m.CreateAclsResponse:
        body = request.body
        response = m.CreateAclsResponse()
        for each in body.creations:
            _refuse_unknown(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
        try:
            authorizer = self._authorizer_for(request, AclOperation.ALTER)
            added: dict[AclBinding, None] = {}
            for each in body.creations:
                result = m.CreateAclsResponse.AclCreationResult()
                response.results.append(result)
                try:
                    added[_binding(each)] = None
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
            new = [rule for rule in added if rule not in authorizer]
            if len(new) > MOST_PER_REQUEST:
                raise PolicyViolation(f"A request may create {MOST_PER_REQUEST} ACLs in all.")
            if added:  # also what this broker knows of: another one may have deleted it a moment ago
                with changing("ACLs"):
                    self._catalog.change_acls(list(added), [])
                if new:
                    self._gate.change_rules(new, [])
        except KafkaError as error:
            refused = m.CreateAclsResponse.AclCreationResult(error_code=error.code, error_message=error.message)
            return m.CreateAclsResponse(results=[refused] * len(body.creations))
        return response

    def delete_acls(self, request: Request[m.DeleteAclsRequest]) -> m.DeleteAclsResponse:
        body = request.body
        response = m.DeleteAclsResponse()
        for each in body.filters:
            _refuse_unknown(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        try:
            self._authorizer_for(request, AclOperation.ALTER)
            filters: list[tuple[AclFilter, m.DeleteAclsResponse.DeleteAclsFilterResult]] = []
            for each in body.filters:
                result = m.DeleteAclsResponse.DeleteAclsFilterResult(error_message=None)
                response.filter_results.append(result)
                acl_filter = _filter(each)
                if acl_filter is None:
                    result.error_code = ErrorCode.INVALID_REQUEST
                    result.error_message = f"Unknown {_unknown_part(each)}."
                else:
                    filters.append((acl_filter, result))
            if filters:
                self._delete(filters)
        except KafkaError as error:
            refused = m.DeleteAclsResponse.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            return m.DeleteAclsResponse(filter_results=[refused] * len(body.filters))
        return response

    def _authorizer_for(self, request: AnyRequest, operation: AclOperation) -> Authorizer:
        """The authorizer, for somebody who may do this to its rules."""
        authorizer = self._gate.authorizer
        if authorizer is None:
            raise SecurityDisabled(_NO_AUTHORIZER)
        if not self._gate.allows_on_cluster(request, operation):
            raise ClusterAuthorizationFailed()
        return authorizer

    def _delete(self, filters: list[tuple[AclFilter, m.DeleteAclsResponse.DeleteAclsFilterResult]]) -> None:
        """Delete what filters match in the catalog, which may be more or less than this broker knows of."""
        removed: dict[AclBinding, None] = {}

        def choose(rules: Sequence[AclBinding]) -> Collection[AclBinding]:
            removed.clear()
            for acl_filter, result in filters:
                matching = [rule for rule in rules if acl_filter.matches(rule)]
                removed.update(dict.fromkeys(matching))
                result.matching_acls = [_deleted(rule) for rule in matching]
            if len(removed) > MOST_PER_REQUEST:
                raise InvalidRequest(f"Cannot remove more than {MOST_PER_REQUEST} acls in a single delete operation.")
            return removed

        with changing("ACLs"):
            self._catalog.delete_acls(choose)
        if removed:
            self._gate.change_rules([], removed)


def _refuse_unknown(resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Kafka cannot read a request in which one of these is UNKNOWN, which is 0, and closes the connection."""
    if _UNKNOWN in (resource_type, pattern_type, operation, permission):
        raise MalformedMessage("an ACL of unknown type")


def _known(kind: type[E], number: int) -> E | None:
    return kind(number) if number in kind._value2member_map_ else None


def _name(kind: type[IntEnum], number: int) -> str:
    known = _known(kind, number)
    return "UNKNOWN" if known is None else known.name


def _binding(requested: m.CreateAclsRequest.AclCreation) -> AclBinding:
    """The rule that is to be created. Raises InvalidRequest in Kafka's words, for the fault that Kafka finds first."""
    resource_type = _known(AclResource, requested.resource_type)
    pattern_type = _known(PatternType, requested.resource_pattern_type)
    operation = _known(AclOperation, requested.operation)
    permission = _known(AclPermission, requested.permission_type)
    if resource_type is AclResource.CLUSTER and requested.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not requested.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if resource_type is None or resource_type is AclResource.ANY:
        raise InvalidRequest(f"Invalid resourceType {_name(AclResource, requested.resource_type)}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {_name(PatternType, requested.resource_pattern_type)}")
    if operation is None or operation is AclOperation.ANY:
        raise InvalidRequest(f"Invalid operation {_name(AclOperation, requested.operation)}")
    if permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise InvalidRequest(f"Invalid permissionType {_name(AclPermission, requested.permission_type)}")
    if ":" not in requested.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{requested.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return AclBinding(
        resource_type, requested.resource_name, requested.principal, operation, permission, requested.host, pattern_type
    )


def _filter(requested: m.DescribeAclsRequest | m.DeleteAclsRequest.DeleteAclsFilter) -> AclFilter | None:
    """None if it asks for a type that there is not, which no rule has."""
    resource_type = _known(AclResource, requested.resource_type_filter)
    pattern_type = _known(PatternType, requested.pattern_type_filter)
    operation = _known(AclOperation, requested.operation)
    permission = _known(AclPermission, requested.permission_type)
    if resource_type is None or pattern_type is None or operation is None or permission is None:
        return None
    return AclFilter(
        resource_type,
        requested.resource_name_filter,
        requested.principal_filter,
        operation,
        permission,
        requested.host_filter,
        pattern_type,
    )


def _unknown_part(requested: m.DeleteAclsRequest.DeleteAclsFilter) -> str:
    pattern = _known(AclResource, requested.resource_type_filter), _known(PatternType, requested.pattern_type_filter)
    return "patternFilter" if None in pattern else "entryFilter"


def _by_resource(rules: list[AclBinding]) -> list[m.DescribeAclsResponse.DescribeAclsResource]:
    response = m.DescribeAclsResponse
    resources: dict[tuple[int, str, int], m.DescribeAclsResponse.DescribeAclsResource] = {}
    for rule in rules:
        pattern = (rule.resource_type, rule.resource_name, rule.pattern_type)
        if pattern not in resources:
            resources[pattern] = response.DescribeAclsResource(*pattern)
        resources[pattern].acls.append(
            response.AclDescription(rule.principal, rule.host, rule.operation, rule.permission)
        )
    return list(resources.values())


def _deleted(rule: AclBinding) -> m.DeleteAclsResponse.DeleteAclsMatchingAcl:
    return m.DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
