"""Access control lists."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.admin.base import AdminPart
from penstock.client.errors import check
from penstock.security.acls import AclBinding, AclFilter
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType


class Acls(AdminPart):
    async def describe_acls(self, acl_filter: AclFilter | None = None) -> list[AclBinding]:
        """The rules that match, or all."""
        chosen = acl_filter or AclFilter()
        request = m.DescribeAclsRequest(
            resource_type_filter=int(chosen.resource_type),
            resource_name_filter=chosen.resource_name,
            pattern_type_filter=int(chosen.pattern_type),
            principal_filter=chosen.principal,
            host_filter=chosen.host,
            operation=int(chosen.operation),
            permission_type=int(chosen.permission),
        )
        answer = await self.cluster.call(
            request,
            m.DescribeAclsResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message),
        )
        return sorted(
            AclBinding(
                AclResource(resource.resource_type),
                resource.resource_name,
                acl.principal,
                AclOperation(acl.operation),
                AclPermission(acl.permission_type),
                acl.host,
                PatternType(resource.pattern_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        )

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add rules; those that exist already stay."""
        creation = m.CreateAclsRequest.AclCreation
        rules = list(bindings)
        request = m.CreateAclsRequest(
            creations=[
                creation(
                    resource_type=int(b.resource_type),
                    resource_name=b.resource_name,
                    resource_pattern_type=int(b.pattern_type),
                    principal=b.principal,
                    host=b.host,
                    operation=int(b.operation),
                    permission_type=int(b.permission),
                )
                for b in rules
            ]
        )
        answer = await self.cluster.call_controller(request, m.CreateAclsResponse)
        for binding, result in zip(rules, answer.results, strict=True):
            check(result.error_code, result.error_message, f"ACL on {binding.resource_name!r}")

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Delete all rules that match; returns them."""
        entry = m.DeleteAclsRequest.DeleteAclsFilter
        request = m.DeleteAclsRequest(
            filters=[
                entry(
                    resource_type_filter=int(f.resource_type),
                    resource_name_filter=f.resource_name,
                    pattern_type_filter=int(f.pattern_type),
                    principal_filter=f.principal,
                    host_filter=f.host,
                    operation=int(f.operation),
                    permission_type=int(f.permission),
                )
                for f in filters
            ]
        )
        answer = await self.cluster.call_controller(request, m.DeleteAclsResponse)
        deleted: list[AclBinding] = []
        for result in answer.filter_results:
            check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                check(acl.error_code, acl.error_message)
                deleted.append(
                    AclBinding(
                        AclResource(acl.resource_type),
                        acl.resource_name,
                        acl.principal,
                        AclOperation(acl.operation),
                        AclPermission(acl.permission_type),
                        acl.host,
                        PatternType(acl.pattern_type),
                    )
                )
        return deleted
