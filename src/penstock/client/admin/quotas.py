"""Client quotas (KIP-546): how much users, client ids and addresses may use per second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from penstock.client.admin.base import AdminPart
from penstock.client.errors import UsageError, check, kafka_error
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError


class QuotaName(Enum):
    """Stands for more than one name."""

    DEFAULT = "default"
    """All those that have no quota of their own."""
    ANY = "any"
    """In a search: every name, and the default."""


DEFAULT: Final = QuotaName.DEFAULT
ANY: Final = QuotaName.ANY

Name = str | Literal[QuotaName.DEFAULT] | None
Wanted = str | QuotaName | None


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """Whom a quota is for: a user, a client id, a client id of a user, or an address; or the DEFAULT of either."""

    user: Name = None
    client_id: Name = None
    ip: Name = None


class ClientQuotas(AdminPart):
    async def describe_client_quotas(
        self,
        *,
        user: str | QuotaName | None = None,
        client_id: str | QuotaName | None = None,
        ip: str | QuotaName | None = None,
        strict: bool = False,
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """The quotas of all entities, or of those that match the arguments: a name, DEFAULT or ANY.

        `strict` leaves out entities with further parts.
        """
        request = m.DescribeClientQuotasRequest(
            components=[_component(kind, wanted) for kind, wanted in _kinds(user, client_id, ip) if wanted is not None],
            strict=strict,
        )
        answer = await self.cluster.call(
            request,
            m.DescribeClientQuotasResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message),
        )
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in answer.entries or ()
        }

    async def alter_client_quotas(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[ClientQuotaEntity, KafkaError | None]:
        """Set quotas by their Kafka names, and remove those that are None.

        Returns an error or None for each entity. `validate_only` changes nothing.
        """
        if not changes:
            raise UsageError("alter_client_quotas got nothing to change")
        request = m.AlterClientQuotasRequest(
            entries=[_alteration(entity, values) for entity, values in changes.items()], validate_only=validate_only
        )
        answer = await self.cluster.call_controller(request, m.AlterClientQuotasResponse)
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): kafka_error(
                entry.error_code, entry.error_message
            )
            if entry.error_code
            else None
            for entry in answer.entries
        }


def _kinds(user: Wanted, client_id: Wanted, ip: Wanted) -> tuple[tuple[str, Wanted], ...]:
    return ("user", user), ("client-id", client_id), ("ip", ip)


def _component(kind: str, wanted: str | QuotaName) -> m.DescribeClientQuotasRequest.ComponentData:
    match_type = 0 if isinstance(wanted, str) else 1 if wanted is DEFAULT else 2
    match = wanted if isinstance(wanted, str) else None
    return m.DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match_type, match=match)


def _alteration(entity: ClientQuotaEntity, values: Mapping[str, float | None]) -> m.AlterClientQuotasRequest.EntryData:
    return m.AlterClientQuotasRequest.EntryData(
        entity=[
            m.AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name if isinstance(name, str) else None)
            for kind, name in _kinds(entity.user, entity.client_id, entity.ip)
            if name is not None
        ],
        ops=[
            m.AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


def _entity(parts: Mapping[str, str | None]) -> ClientQuotaEntity:
    named: dict[str, Name] = {kind: DEFAULT if name is None else name for kind, name in parts.items()}
    return ClientQuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))
