"""Configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.client.admin.base import AdminPart
from penstock.client.errors import UsageError, check
from penstock.wire import messages as m
from penstock.wire.config_resources import ResourceType


class ConfigSource(IntEnum):
    UNKNOWN = -1
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """One of the places that a config's value can come from."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Every place that has a value, the one that counts first."""

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3


class Configs(AdminPart):
    async def describe_configs(
        self,
        resource_type: ResourceType,
        name: str,
        keys: Iterable[str] | None = None,
        *,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """The configs of one topic, broker or group, by name."""

        def build(version: int) -> m.Message:
            resource = m.DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=int(resource_type),
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            return m.DescribeConfigsRequest(
                resources=[resource],
                include_synonyms=True,
                include_documentation=include_documentation and version >= 3,
            )

        def check_answer(answer: m.DescribeConfigsResponse) -> None:
            for result in answer.results:
                check(result.error_code, result.error_message, _named(resource_type, name))

        answer = await self.cluster.call(
            build,
            m.DescribeConfigsResponse,
            node=self._home(resource_type, name),
            check_answer=check_answer,
        )
        return {
            entry.name: ConfigEntry(
                entry.name,
                entry.value,
                entry.config_source,
                entry.read_only,
                entry.is_sensitive,
                entry.documentation,
                tuple(ConfigSynonym(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms),
            )
            for result in answer.results
            for entry in result.configs
        }

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Mapping[str, str | None] | None = None,
        *,
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set configs (None restores a default); append to and subtract from lists."""
        alterable = m.IncrementalAlterConfigsRequest.AlterableConfig
        operations = [
            alterable(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in (changes or {}).items()
        ]
        operations += [alterable(name=k, config_operation=_APPEND, value=v) for k, v in (append or {}).items()]
        operations += [alterable(name=k, config_operation=_SUBTRACT, value=v) for k, v in (subtract or {}).items()]
        if not operations:
            raise UsageError("alter_configs got nothing to change")
        resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=int(resource_type), resource_name=name, configs=operations
        )
        answer = await self.cluster.call(
            m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only),
            m.IncrementalAlterConfigsResponse,
            node=self._home(resource_type, name),
        )
        for result in answer.responses:
            check(result.error_code, result.error_message, _named(resource_type, name))

    async def list_config_resources(
        self, resource_types: Iterable[ResourceType] = ()
    ) -> list[tuple[ResourceType, str]]:
        """Resources that have configs of their own."""
        kinds = [int(kind) for kind in resource_types]
        answer = await self.cluster.call(
            m.ListConfigResourcesRequest(resource_types=kinds),
            m.ListConfigResourcesResponse,
            check_answer=lambda answer: check(answer.error_code),
            at_least=1 if kinds else 0,
        )
        return sorted((ResourceType(r.resource_type), r.resource_name) for r in answer.config_resources)

    def _home(self, resource_type: ResourceType, name: str) -> int | None:
        """A broker's own configs must be asked of that broker."""
        if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
            if not name.isdigit():
                raise UsageError(f"a broker is named by its node id, not {name!r}")
            return int(name)
        return None


def _named(resource_type: ResourceType, name: str) -> str:
    if resource_type is ResourceType.BROKER and not name:
        return "all brokers"
    return f"{resource_type.name.lower().replace('_', ' ')} {name!r}"
