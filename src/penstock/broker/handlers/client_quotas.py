"""DescribeClientQuotas and AlterClientQuotas.

There are no quotas; setting some is refused, because accepting what is then not enforced would be a false promise.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_NO_QUOTAS = "This broker does not enforce client quotas, so it does not take them."
_QUOTA_ENTITIES = ("user", "client-id", "ip")
_EXACT = 0
_QUOTA_MATCHES = (_EXACT, 1, 2)


class ClientQuotaHandlers:
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


def _wrong_entity(entity: Mapping[str, str | None]) -> str | None:
    unknown = [kind for kind in entity if kind not in _QUOTA_ENTITIES]
    if unknown:
        return f"There are no quotas of a {unknown[0]}."
    if not entity or ("ip" in entity and len(entity) > 1):
        return "A quota belongs to a user, a client id, both, or an address."
    if "" in entity.values():
        return "The name of who a quota belongs to is empty."
    return None
