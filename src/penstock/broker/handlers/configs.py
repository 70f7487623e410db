"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Resources are topics, this broker (by its id), all brokers (the empty name), groups, and client metrics subscriptions.
A change is checked as a whole before any of it takes effect; AlterConfigs replaces everything that was set, the
incremental form sets, deletes, appends to and subtracts from single configs. Each is a function of what is set, which
is tried on what this broker knows and then made of what the catalog has: another broker may have changed other configs
of the same resource a moment ago. Requested names that do not exist are left
out of a description, not refused.

Topics and groups need DESCRIBE_CONFIGS or ALTER_CONFIGS on themselves, everything else needs it on the cluster. Who
names a group's dead-letter topic needs WRITE on it too, and is whose rights count from then on. The address of the
monitoring endpoint alone is described to everybody who is let in: who may look at what is decided there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker import loggers
from penstock.broker.config import GROUP, TOPIC, ConfigError, ConfigType, Definition, Entry
from penstock.broker.config.broker import BROKER
from penstock.broker.config.client_metrics import CLIENT_METRICS, check_client_metrics
from penstock.broker.handlers.table import WRITE_TOPIC
from penstock.broker.requests import AnyRequest, Request
from penstock.broker.topics import check_name
from penstock.catalog.contract import ConfigChange, replaced_by
from penstock.security.acls import CLUSTER_NAME
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import (
    ClusterAuthorizationFailed,
    ErrorCode,
    GroupAuthorizationFailed,
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import Configs
    from penstock.broker.gate import Gate
    from penstock.broker.topic_manager import TopicManager
    from penstock.broker.topics import Topic

_LIST_RESOURCE_TYPES = 1
_LOGGERS = "The levels of loggers are changed one by one, with IncrementalAlterConfigs."


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_AUTHORITY = "penstock.share.deadletterqueue.authority"
_DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_DEAD_LETTER_COPIES = "errors.deadletterqueue.copy.record.enable"
_NEED_AUTHORITY = {_DEAD_LETTER_TOPIC, _DEAD_LETTER_COPIES}
_MONITORING = "penstock.metrics.listen"
_KINDS = frozenset(ResourceType)
_DENIED = {
    AclResource.TOPIC: TopicAuthorizationFailed,
    AclResource.GROUP: GroupAuthorizationFailed,
    AclResource.CLUSTER: ClusterAuthorizationFailed,
}


class ConfigHandlers:
    def __init__(self, topics: TopicManager, configs: Configs, cluster: ClusterView, gate: Gate) -> None:
        self._topics = topics
        self._configs = configs
        self._cluster = cluster
        self._gate = gate

    # -- describing ----------------------------------------------------------------------------------------------------

    def describe_configs(self, request: Request[m.DescribeConfigsRequest]) -> m.DescribeConfigsResponse:
        body = request.body
        response = m.DescribeConfigsResponse()
        denied = []
        for resource in body.resources:
            result = m.DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            try:
                if not _names_monitoring_configs(resource):
                    self._check(request, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
                denied.append(result)
                continue
            response.results.append(result)
            names = resource.configuration_keys
            try:
                entries = self._describe(resource.resource_type, resource.resource_name, names)
            except KafkaError as error:
                result.error_code = error.code
                # Kafka lets the code of a topic that is not there speak for itself.
                result.error_message = None if isinstance(error, UnknownTopicOrPartition) else error.message
                continue
            result.configs = [_described(entry, body.include_synonyms, body.include_documentation) for entry in entries]
        response.results += denied
        return response

    def _check(self, request: AnyRequest, operation: AclOperation, kind: int, name: str) -> None:
        """Raise what Kafka answers unless this may be done to the configs of a resource; of no kind that it does not
        know, which is refused to everybody."""
        if kind not in _KINDS:
            return
        if kind == ResourceType.TOPIC:
            resource = AclResource.TOPIC
        elif kind == ResourceType.GROUP:
            resource = AclResource.GROUP
        else:
            resource, name = AclResource.CLUSTER, CLUSTER_NAME
        if not self._gate.allows(request, operation, resource, name):
            raise _DENIED[resource]()

    def _describe(self, kind: int, name: str, names: list[str] | None) -> list[Entry]:
        if names is not None and not names:
            names = None
        if kind == ResourceType.TOPIC:
            check_name(name)
            topic = self._cluster.find_topic(name)
            if topic is None:
                raise UnknownTopicOrPartition
            return self._configs.topic_entries(topic.configs, names)
        if kind == ResourceType.BROKER:
            if name and _number(name) != self._cluster.node_id:
                raise InvalidRequest(
                    f"Unexpected broker id, expected {self._cluster.node_id} or empty string, but received {name}"
                )
            return self._configs.broker_entries(name and str(self._cluster.node_id), names)
        if kind == ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return self._configs.group_entries(name, names)
        if kind == ResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty")
            return self._configs.client_metrics_entries(name, names)
        if kind == ResourceType.BROKER_LOGGER:
            if _number(name) != self._cluster.node_id:
                raise InvalidRequest(f"Unexpected broker id, expected {self._cluster.node_id}, but received {name}")
            return loggers.entries(names)
        raise InvalidRequest(f"Unsupported resource type: {kind}")

    def list_config_resources(self, request: Request[m.ListConfigResourcesRequest]) -> m.ListConfigResourcesResponse:
        body = request.body
        if not self._gate.allows_on_cluster(request, AclOperation.DESCRIBE_CONFIGS):
            return m.ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        available: dict[int, Iterable[str]] = {
            ResourceType.TOPIC: [topic.name for topic in self._cluster.topics()],
            ResourceType.BROKER: [str(self._cluster.node_id)],
            ResourceType.BROKER_LOGGER: [str(self._cluster.node_id)],
            ResourceType.CLIENT_METRICS: self._configs.client_metrics_names(),
            ResourceType.GROUP: self._configs.group_names(),
        }
        if request.api_version < _LIST_RESOURCE_TYPES:
            requested: Iterable[int] = [ResourceType.CLIENT_METRICS]
        else:
            requested = body.resource_types or list(available)
            if not set(requested) <= set(available):
                return m.ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return m.ListConfigResourcesResponse(
            config_resources=[
                m.ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
                for kind in dict.fromkeys(requested)
                for name in available[kind]
            ]
        )

    # -- altering ------------------------------------------------------------------------------------------------------

    def alter_configs(self, request: Request[m.AlterConfigsRequest]) -> m.AlterConfigsResponse:
        body = request.body
        response = m.AlterConfigsResponse()
        times = Counter((resource.resource_type, resource.resource_name) for resource in body.resources)
        for resource in body.resources:
            kind, name = resource.resource_type, resource.resource_name
            result = m.AlterConfigsResponse.AlterConfigsResourceResponse(resource_type=kind, resource_name=name)
            response.responses.append(result)
            try:
                if times[kind, name] > 1:
                    raise InvalidRequest("Each resource must appear at most once.")
                configs: dict[str, str] = {}
                for config in resource.configs:
                    if config.name in configs:
                        raise InvalidRequest("Error due to duplicate config keys")
                    if config.value is None:
                        raise InvalidRequest(f"Null value not supported for : {config.name}")
                    configs[config.name] = config.value
                self._check(request, AclOperation.ALTER_CONFIGS, kind, name)
                self._change(request, kind, name, replaced_by(configs), set(configs), body.validate_only)
            except (KafkaError, ConfigError) as error:
                _refuse(result, error)
        return response

    def incremental_alter_configs(
        self, request: Request[m.IncrementalAlterConfigsRequest]
    ) -> m.IncrementalAlterConfigsResponse:
        body = request.body
        response = m.IncrementalAlterConfigsResponse()
        times = Counter((resource.resource_type, resource.resource_name) for resource in body.resources)
        for resource in body.resources:
            kind, name = resource.resource_type, resource.resource_name
            result = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                resource_type=kind, resource_name=name
            )
            response.responses.append(result)
            try:
                if times[kind, name] > 1:
                    raise InvalidRequest("Each resource must appear at most once.")
                _check_changes(resource.configs)
                self._check(request, AclOperation.ALTER_CONFIGS, kind, name)
                if kind == ResourceType.BROKER_LOGGER:
                    self._change_loggers(name, resource.configs, validate_only=body.validate_only)
                    continue
                change = partial(_changed, _definitions(kind), resource.configs)
                named = {each.name for each in resource.configs}
                self._change(request, kind, name, change, named, body.validate_only)
            except (KafkaError, ConfigError) as error:
                _refuse(result, error)
        return response

    def _change(
        self,
        request: AnyRequest,
        kind: int,
        name: str,
        change: ConfigChange,
        named: Collection[str],
        validate_only: bool,
    ) -> None:
        """Check a change against what this broker knows and, unless only that was requested, make it."""
        known = self._overrides(kind, name)
        if kind == ResourceType.GROUP:
            change = self._with_authority(request, known, change, named)
        configs = change(known)
        if kind == ResourceType.TOPIC:
            self._configs.check_topic(configs)
            if not validate_only:
                self._topics.change_configs(self._topic(name), change)
        elif kind == ResourceType.BROKER:
            self._configs.check_broker(name, configs)
            if not validate_only:
                self._configs.change_broker(name, change)
        elif kind == ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Default group resources are not allowed.")
            self._configs.check_group(configs)
            if not validate_only:
                self._configs.change_group(name, change)
        elif kind == ResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Subscription name can't be empty")
            check_client_metrics(configs)
            if not validate_only:
                self._configs.change_client_metrics(name, change)
        elif kind == ResourceType.BROKER_LOGGER:
            raise InvalidRequest(_LOGGERS)
        else:
            raise InvalidRequest(f"Unknown resource type {kind}")

    def _overrides(self, kind: int, name: str) -> dict[str, str]:
        if kind == ResourceType.TOPIC:
            return dict(self._topic(name).configs)
        if kind == ResourceType.BROKER:
            return self._configs.broker_overrides(name)
        if kind == ResourceType.GROUP:
            return self._configs.group_overrides(name)
        if kind == ResourceType.CLIENT_METRICS:
            return self._configs.client_metrics_overrides(name)
        return {}

    def _topic(self, name: str) -> Topic:
        topic = self._cluster.find_topic(name)
        if topic is None:
            raise _no_topic(name)
        return topic

    def _with_authority(
        self, request: AnyRequest, known: Mapping[str, str], change: ConfigChange, named: Collection[str]
    ) -> ConfigChange:
        """The change of a group's configs that also notes whose rights count for its dead letters: those of who named
        their topic or requested copies."""
        authority = None if self._gate.is_open else self._gate.authority(request)
        topic = _settled(change, named, authority, known).get(_DEAD_LETTER_TOPIC, "").strip()
        if topic and authority is not None and _NEED_AUTHORITY & set(named):
            is_missing = self._cluster.find_topic(topic) is None
            creates = is_missing and self._configs.broker.errors_deadletterqueue_auto_create_topics_enable
            if not self._gate.allows(request, *WRITE_TOPIC, topic) or (
                creates and not self._gate.allows_creating(request, topic)
            ):
                raise TopicAuthorizationFailed(
                    f"Naming the dead-letter topic {topic} needs WRITE on it, and CREATE where it is created by the "
                    "broker."
                )
        # If the catalog has another topic by then, the rights of the authority are looked at when it is written to.
        return partial(_settled, change, named, authority)

    def _change_loggers(
        self, name: str, changes: list[m.IncrementalAlterConfigsRequest.AlterableConfig], *, validate_only: bool
    ) -> None:
        if _number(name) != self._cluster.node_id:
            raise InvalidRequest(f"Unexpected broker id, expected {self._cluster.node_id}, but received {name}")
        for change in changes:
            if change.config_operation not in (Operation.SET, Operation.DELETE):
                raise InvalidRequest("The levels of loggers are no lists.")
        levels = {change.name: change.value if change.config_operation == Operation.SET else None for change in changes}
        loggers.change(levels, validate_only=validate_only)


def _changed(
    definitions: Mapping[str, Definition],
    changes: list[m.IncrementalAlterConfigsRequest.AlterableConfig],
    found: Mapping[str, str],
) -> dict[str, str]:
    """What is set for a resource after these changes."""
    configs = dict(found)
    for change in changes:
        if change.config_operation == Operation.SET:
            configs[change.name] = change.value or ""
        elif change.config_operation == Operation.DELETE:
            configs.pop(change.name, None)
        elif change.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            _change_list(configs, definitions.get(change.name), change)
        else:
            raise InvalidRequest(f"Unknown operation type {change.config_operation}")
    return configs


def _settled(
    change: ConfigChange, named: Collection[str], authority: str | None, found: Mapping[str, str]
) -> dict[str, str]:
    """A group's configs after a change, with the authority of whoever has named its dead-letter topic or requested
    copies last: `authority`, or whoever did so before."""
    configs = dict(change(found))
    known = found.get(_AUTHORITY)
    if _AUTHORITY in named and configs.get(_AUTHORITY) != known:
        raise InvalidConfig(f"{_AUTHORITY} is set by the broker, to whoever names the dead-letter topic.")
    configs.pop(_AUTHORITY, None)
    if configs.get(_DEAD_LETTER_TOPIC, "").strip():
        counts = authority if _NEED_AUTHORITY & set(named) else known
        if counts is not None:
            configs[_AUTHORITY] = counts
    return configs


def _check_changes(changes: list[m.IncrementalAlterConfigsRequest.AlterableConfig]) -> None:
    if len({change.name for change in changes}) != len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    missing = [
        change.name for change in changes if change.value is None and change.config_operation != Operation.DELETE
    ]
    if missing:
        raise InvalidRequest(f"Null value not supported for : {','.join(missing)}")


def _number(name: str) -> int | None:
    return int(name) if re.fullmatch(r"[+-]?[0-9]+", name) else None


def _described(
    entry: Entry, synonyms: bool, documentation: bool
) -> m.DescribeConfigsResponse.DescribeConfigsResourceResult:
    response = m.DescribeConfigsResponse
    return response.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            response.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in entry.synonyms
        ]
        if synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )


def _refuse(
    result: m.AlterConfigsResponse.AlterConfigsResourceResponse
    | m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
    error: KafkaError | ConfigError,
) -> None:
    if isinstance(error, KafkaError):
        result.error_code = error.code
    elif result.resource_type == ResourceType.BROKER:
        result.error_code = ErrorCode.INVALID_REQUEST
    else:
        result.error_code = ErrorCode.INVALID_CONFIG
    result.error_message = str(error)


def _change_list(
    configs: dict[str, str],
    definition: Definition | None,
    change: m.IncrementalAlterConfigsRequest.AlterableConfig,
) -> None:
    verb = "APPEND" if change.config_operation == Operation.APPEND else "SUBTRACT"
    if definition is None or definition.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Can't {verb} to key {change.name} because its type is not LIST."
            if definition is not None
            else f"Unknown config name: {change.name}"
        )
    # What the broker's own config says does not count here, as in Kafka: an unset list starts from the default.
    current = configs.get(change.name, definition.default or "")
    items = [item for item in current.split(",") if item]
    given = [item.strip() for item in (change.value or "").split(",")]
    if change.config_operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    configs[change.name] = ",".join(items)


def _names_monitoring_configs(resource: m.DescribeConfigsRequest.DescribeConfigsResource) -> bool:
    """Whether nothing but the address of a broker's monitoring endpoint is asked for, by its name."""
    return resource.resource_type == ResourceType.BROKER and resource.configuration_keys == [_MONITORING]


def _definitions(kind: int) -> Mapping[str, Definition]:
    tables: dict[int, Mapping[str, Definition]] = {
        ResourceType.TOPIC: TOPIC,
        ResourceType.BROKER: BROKER,
        ResourceType.GROUP: GROUP,
        ResourceType.CLIENT_METRICS: CLIENT_METRICS,
    }
    return tables.get(kind, {})


def _no_topic(name: str) -> KafkaError:
    if not name:
        return InvalidRequest("Default topic resources are not allowed.")
    check_name(name)
    return UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
