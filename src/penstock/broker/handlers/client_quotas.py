"""DescribeClientQuotas and AlterClientQuotas (KIP-546; KIP-612 for addresses).

A filter names types of entities, each with an exact name, the default, or any of them; `strict` leaves out entities
with more types than the filter names. An alteration sets and removes quotas of one entity; each entity of a request
succeeds or fails on its own, and what succeeds holds at once. An address is one in numbers: Kafka would look up a host
name, here and once more when a connection is to be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.requests import Request
from penstock.security.quotas import (
    CLIENT_ID,
    CLIENT_QUOTAS,
    ENTITY_TYPES,
    IP,
    USER,
    Quota,
    QuotaEntity,
    canonical_address,
)
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import ClusterAuthorizationFailed, ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from penstock.broker.gate import Gate
    from penstock.broker.quotas import Quotas
    from penstock.catalog.contract import QuotaChange

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_MATCHES = {_DEFAULT: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}
_DENIED = "Cluster authorization failed."

# What is counted in whole bytes and connections, and the largest number that the type of each can hold.
_WHOLE = {
    Quota.PRODUCE.value: (2**63 - 1, "a LONG"),
    Quota.FETCH.value: (2**63 - 1, "a LONG"),
    Quota.CONNECTION.value: (2**31 - 1, "an INT"),
}
_ALLOWED_FRACTION = 1e-6


class ClientQuotaHandlers:
    def __init__(self, quotas: Quotas, gate: Gate) -> None:
        self._quotas = quotas
        self._gate = gate

    def describe_client_quotas(self, request: Request[m.DescribeClientQuotasRequest]) -> m.DescribeClientQuotasResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE_CONFIGS):
            return m.DescribeClientQuotasResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, entries=None)
        try:
            names, types = _filter(body.components)
        except KafkaError as error:
            return m.DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
        entries = []
        for entity, values in self._quotas.entities.items():
            parts = dict(entity)
            is_match = all(kind in parts and parts[kind] == name for kind, name in names.items())
            if is_match and types <= parts.keys() and not (body.strict and len(parts) != len(names) + len(types)):
                entries.append(
                    m.DescribeClientQuotasResponse.EntryData(
                        entity=[
                            m.DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                            for kind, name in entity
                        ],
                        values=[
                            m.DescribeClientQuotasResponse.ValueData(key=key, value=value)
                            for key, value in values.items()
                        ],
                    )
                )
        return m.DescribeClientQuotasResponse(entries=entries)

    def alter_client_quotas(self, request: Request[m.AlterClientQuotasRequest]) -> m.AlterClientQuotasResponse:
        body = request.body
        is_allowed = self._gate.allows_on_cluster(request, AclOperation.ALTER_CONFIGS)
        results: dict[QuotaEntity, KafkaError | None] = {}
        changes: dict[QuotaEntity, QuotaChange] = {}
        for requested in body.entries:
            # Of two parts of one type the last one counts.
            entity = tuple(sorted({part.entity_type: part.entity_name for part in requested.entity}.items()))
            keys = [op.key for op in requested.ops]
            try:
                if not is_allowed:
                    raise ClusterAuthorizationFailed(_DENIED)
                if entity in results or len(set(keys)) < len(keys):
                    raise InvalidRequest(f"Ignoring duplicate entity {_shown(entity)}")
                _check_ops(entity, requested.ops)
                changes[entity] = partial(_altered, requested.ops)
                results[entity] = None
            except KafkaError as error:
                results[entity] = error
        if changes and not body.validate_only:
            try:
                self._quotas.change(changes)
            except KafkaError as error:
                results.update(dict.fromkeys(changes, error))
        return m.AlterClientQuotasResponse(
            entries=[
                m.AlterClientQuotasResponse.EntryData(
                    error_code=0 if error is None else error.code,
                    error_message=None if error is None else error.message,
                    entity=[
                        m.AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                )
                for entity, error in results.items()
            ]
        )


def _filter(
    components: list[m.DescribeClientQuotasRequest.ComponentData],
) -> tuple[dict[str, str | None], frozenset[str]]:
    """The names that a filter wants (None is a default), and the types of which any name will do."""
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind, match_type, match = component.entity_type, component.match_type, component.match
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in names or kind in types:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        if match_type == _EXACT and match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type in _MATCHES and match is not None:
            raise InvalidRequest(f"Request specified {_MATCHES[match_type]}, but also specified a match string.")
        if match_type in (_EXACT, _DEFAULT):
            names[kind] = match
        elif match_type == _ANY:
            types.add(kind)
        else:
            raise InvalidRequest(f"Unknown match type {match_type}")
    kinds = names.keys() | types
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return names, frozenset(types)


def _altered(ops: list[m.AlterClientQuotasRequest.OpData], found: Mapping[str, float]) -> dict[str, float]:
    """The quotas of an entity after an alteration."""
    altered = dict(found)
    for op in ops:
        if op.remove:
            altered.pop(op.key, None)
        else:
            altered[op.key] = op.value
    return altered


def _check_ops(entity: QuotaEntity, ops: list[m.AlterClientQuotasRequest.OpData]) -> None:
    """Raises InvalidRequest for an alteration that is none of the entity."""
    quotas = _check_entity(entity)
    for op in ops:
        if op.remove:
            continue
        if op.key not in quotas:
            raise InvalidRequest(f"Invalid configuration key {op.key}")
        if not op.value > 0:
            raise InvalidRequest(f"Quota {op.key} must be greater than 0")
        if op.key in _WHOLE:
            largest, kind = _WHOLE[op.key]
            if op.value > largest:
                raise InvalidRequest(f"Proposed value for {op.key} is too large for {kind}.")
            if op.value % 1 > _ALLOWED_FRACTION:
                raise InvalidRequest(f"{op.key} cannot be a fractional value.")


def _check_entity(entity: QuotaEntity) -> frozenset[str]:
    """The names of the quotas that an entity can have. Raises InvalidRequest if it is none."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    parts = dict(entity)
    for kind, name in parts.items():
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if IP not in parts:
        return frozenset(quota.value for quota in CLIENT_QUOTAS)
    if USER in parts or CLIENT_ID in parts:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = parts[IP]
    if address is not None and canonical_address(address) is None:
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return frozenset({Quota.CONNECTION.value})


def _shown(entity: QuotaEntity) -> str:
    """An entity as Kafka's Java prints it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"
