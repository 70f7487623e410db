"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources over the wire."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.broker.handlers.configs import Operation
from penstock.client.admin import Admin
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ClusterAuthorizationFailed, ErrorCode
from tests.transactions.wire_client import Wire

NONE = ErrorCode.NONE
TOPIC, BROKER, GROUP, METRICS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
)
SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT
POLICY, RETENTION = "cleanup.policy", "retention.ms"
OF_TOPIC, DEFAULT = 1, 5
"""Where a value comes from, in Kafka's numbers."""

Change = tuple[str, int, str | None]
Described = m.DescribeConfigsResponse.DescribeConfigsResult
Incremental = m.IncrementalAlterConfigsRequest


def describe(wire: Wire, kind: int, name: str, *names: str, synonyms: bool = False) -> Described:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(names) or None
    )
    request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
    return wire.ask(request, m.DescribeConfigsResponse, 4).results[0]


def value(wire: Wire, kind: int, name: str, config: str) -> str | None:
    (entry,) = describe(wire, kind, name, config).configs
    return entry.value


def resource(kind: int, name: str, *changes: Change) -> Incremental.AlterConfigsResource:
    return Incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[Incremental.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes],
    )


def change_all(wire: Wire, *resources: Incremental.AlterConfigsResource, validate_only: bool = False) -> list[int]:
    request = Incremental(resources=list(resources), validate_only=validate_only)
    return [each.error_code for each in wire.ask(request, m.IncrementalAlterConfigsResponse, 1).responses]


def change(wire: Wire, kind: int, name: str, *changes: Change, validate_only: bool = False) -> int:
    (code,) = change_all(wire, resource(kind, name, *changes), validate_only=validate_only)
    return code


def replace(
    wire: Wire, kind: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    request = m.AlterConfigsRequest
    requested = request.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[request.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    body = request(resources=[requested], validate_only=validate_only)
    (result,) = wire.ask(body, m.AlterConfigsResponse, 2).responses
    return result.error_code, result.error_message


class TestDescribing:
    def test_names_that_do_not_exist_are_left_out(self, wire: Wire, topic: str) -> None:
        described = describe(wire, TOPIC, topic, RETENTION, "no.such.config")
        assert (described.error_code, [each.name for each in described.configs]) == (NONE, [RETENTION])

    def test_without_names_everything_is_described(self, wire: Wire, topic: str) -> None:
        names = {each.name for each in describe(wire, TOPIC, topic).configs}
        assert {POLICY, RETENTION, "max.message.bytes", "min.insync.replicas"} <= names

    def test_a_value_says_where_it_comes_from(self, wire: Wire, topic: str) -> None:
        change(wire, TOPIC, topic, (RETENTION, SET, "1000"))
        own, other = describe(wire, TOPIC, topic, RETENTION, POLICY).configs
        if own.name != RETENTION:
            own, other = other, own
        assert (own.value, own.config_source, other.config_source) == ("1000", OF_TOPIC, DEFAULT)

    def test_synonyms_come_only_when_they_are_requested(self, wire: Wire, topic: str) -> None:
        size = "max.message.bytes"
        assert describe(wire, TOPIC, topic, size).configs[0].synonyms == []
        (entry,) = describe(wire, TOPIC, topic, size, synonyms=True).configs
        assert [(each.name, each.source) for each in entry.synonyms] == [("message.max.bytes", DEFAULT)]

    def test_a_topic_that_does_not_exist_and_one_that_cannot(self, wire: Wire) -> None:
        absent = describe(wire, TOPIC, "nowhere")
        assert (absent.error_code, absent.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        assert describe(wire, TOPIC, "no/topic").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_the_broker_by_its_id_all_brokers_and_none_else(self, wire: Wire) -> None:
        node = wire.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1).brokers[0].broker_id
        assert describe(wire, BROKER, str(node)).configs
        assert describe(wire, BROKER, "").error_code == NONE
        for name in (str(node + 1), "one"):
            assert describe(wire, BROKER, name).error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("kind", [GROUP, METRICS])
    def test_a_group_or_subscription_has_a_name(self, wire: Wire, kind: int) -> None:
        assert describe(wire, kind, "any").configs
        assert describe(wire, kind, "").error_code == ErrorCode.INVALID_REQUEST

    def test_a_kind_of_resource_that_does_not_exist(self, wire: Wire) -> None:
        assert describe(wire, 99, "x").error_code == ErrorCode.INVALID_REQUEST


class TestIncrementalChanges:
    def test_a_value_is_set_and_deleted(self, wire: Wire, topic: str) -> None:
        before = value(wire, TOPIC, topic, RETENTION)
        assert change(wire, TOPIC, topic, (RETENTION, SET, "1000")) == NONE
        assert value(wire, TOPIC, topic, RETENTION) == "1000"
        assert change(wire, TOPIC, topic, (RETENTION, DELETE, None)) == NONE
        assert value(wire, TOPIC, topic, RETENTION) == before

    def test_what_is_not_named_stays(self, wire: Wire, topic: str) -> None:
        change(wire, TOPIC, topic, (RETENTION, SET, "1000"))
        change(wire, TOPIC, topic, ("retention.bytes", SET, "5"))
        assert value(wire, TOPIC, topic, RETENTION) == "1000"

    def test_items_are_appended_to_a_list_once_and_subtracted(self, wire: Wire, topic: str) -> None:
        assert change(wire, TOPIC, topic, (POLICY, APPEND, "compact")) == NONE
        assert value(wire, TOPIC, topic, POLICY) == "delete,compact"
        assert change(wire, TOPIC, topic, (POLICY, APPEND, "compact,delete")) == NONE
        assert value(wire, TOPIC, topic, POLICY) == "delete,compact"
        assert change(wire, TOPIC, topic, (POLICY, SUBTRACT, "delete")) == NONE
        assert value(wire, TOPIC, topic, POLICY) == "compact"

    def test_only_lists_can_be_appended_to(self, wire: Wire, topic: str) -> None:
        assert change(wire, TOPIC, topic, (RETENTION, APPEND, "1")) == ErrorCode.INVALID_CONFIG
        assert change(wire, TOPIC, topic, ("no.such.config", APPEND, "1")) == ErrorCode.INVALID_CONFIG

    def test_one_wrong_value_keeps_the_others_from_being_set(self, wire: Wire, topic: str) -> None:
        before = value(wire, TOPIC, topic, RETENTION)
        wrong = change(wire, TOPIC, topic, (RETENTION, SET, "1000"), ("max.message.bytes", SET, "many"))
        assert wrong == ErrorCode.INVALID_CONFIG
        assert value(wire, TOPIC, topic, RETENTION) == before

    def test_validating_changes_nothing_and_finds_the_same_errors(self, wire: Wire, topic: str) -> None:
        before = value(wire, TOPIC, topic, RETENTION)
        assert change(wire, TOPIC, topic, (RETENTION, SET, "1000"), validate_only=True) == NONE
        assert value(wire, TOPIC, topic, RETENTION) == before
        wrong = change(wire, TOPIC, topic, (RETENTION, SET, "soon"), validate_only=True)
        assert wrong == ErrorCode.INVALID_CONFIG

    def test_a_config_that_is_named_twice_is_refused(self, wire: Wire, topic: str) -> None:
        code = change(wire, TOPIC, topic, (RETENTION, SET, "1"), (RETENTION, DELETE, None))
        assert code == ErrorCode.INVALID_REQUEST

    def test_a_resource_that_is_named_twice_is_refused_and_the_others_are_not(
        self, wire: Wire, topic: str, name: str
    ) -> None:
        twice = [resource(TOPIC, topic, (RETENTION, SET, each)) for each in ("1", "2")]
        other = resource(GROUP, name, ("share.auto.offset.reset", SET, "earliest"))
        assert change_all(wire, *twice, other) == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, NONE]
        assert value(wire, GROUP, name, "share.auto.offset.reset") == "earliest"

    def test_a_value_is_needed_except_for_deleting(self, wire: Wire, topic: str) -> None:
        assert change(wire, TOPIC, topic, (RETENTION, SET, None)) == ErrorCode.INVALID_REQUEST

    def test_an_operation_that_does_not_exist(self, wire: Wire, topic: str) -> None:
        assert change(wire, TOPIC, topic, (RETENTION, 9, "1")) == ErrorCode.INVALID_REQUEST

    def test_a_topic_that_does_not_exist(self, wire: Wire) -> None:
        assert change(wire, TOPIC, "nowhere", (RETENTION, SET, "1")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert change(wire, TOPIC, "no/topic", (RETENTION, SET, "1")) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert change(wire, TOPIC, "", (RETENTION, SET, "1")) == ErrorCode.INVALID_REQUEST

    def test_a_broker_config_changes_what_topics_inherit(self, wire: Wire, topic: str) -> None:
        assert change(wire, BROKER, "", ("log.retention.ms", SET, "123456")) == NONE
        assert value(wire, TOPIC, topic, RETENTION) == "123456"
        assert change(wire, BROKER, "", ("log.retention.ms", DELETE, None)) == NONE
        assert value(wire, TOPIC, topic, RETENTION) != "123456"

    def test_a_wrong_value_of_a_broker_is_an_invalid_request(self, wire: Wire) -> None:
        assert change(wire, BROKER, "", ("log.retention.ms", SET, "soon")) == ErrorCode.INVALID_REQUEST

    def test_the_levels_of_loggers_are_changed_at_run_time(self, wire: Wire) -> None:
        kind, name = ResourceType.BROKER_LOGGER, "penstock.share"
        node = str(wire.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1).brokers[0].broker_id)
        before = value(wire, kind, node, name)
        try:
            assert change(wire, kind, node, (name, SET, "TRACE")) == NONE
            assert value(wire, kind, node, name) == "TRACE"
            assert logging.getLogger(name).isEnabledFor(logging.DEBUG)
        finally:
            assert change(wire, kind, node, (name, DELETE, None)) == NONE
        assert value(wire, kind, node, name) == before
        assert change(wire, kind, node, (name, SET, "LOUD")) == ErrorCode.INVALID_CONFIG
        assert change(wire, kind, node, ("penstock.nothing", SET, "DEBUG")) == ErrorCode.INVALID_CONFIG
        assert change(wire, kind, node, ("root", DELETE, None)) == ErrorCode.INVALID_REQUEST
        assert change(wire, kind, "77", ("root", SET, "DEBUG")) == ErrorCode.INVALID_REQUEST


class TestReplacing:
    def test_everything_that_was_set_is_replaced(self, wire: Wire, topic: str) -> None:
        before = value(wire, TOPIC, topic, RETENTION)
        change(wire, TOPIC, topic, (RETENTION, SET, "1000"))
        assert replace(wire, TOPIC, topic, ("retention.bytes", "5"))[0] == NONE
        assert value(wire, TOPIC, topic, RETENTION) == before
        assert value(wire, TOPIC, topic, "retention.bytes") == "5"

    def test_validating_changes_nothing(self, wire: Wire, topic: str) -> None:
        change(wire, TOPIC, topic, (RETENTION, SET, "1000"))
        assert replace(wire, TOPIC, topic, validate_only=True)[0] == NONE
        assert value(wire, TOPIC, topic, RETENTION) == "1000"

    def test_duplicates_and_missing_values_are_refused(self, wire: Wire, topic: str) -> None:
        for configs in ([(RETENTION, "1"), (RETENTION, "2")], [(RETENTION, None)]):
            code, text = replace(wire, TOPIC, topic, *configs)
            assert code == ErrorCode.INVALID_REQUEST
            assert text


class TestListing:
    def ask(self, wire: Wire, *kinds: int, version: int = 1) -> tuple[int, set[tuple[int, str]]]:
        answer = wire.ask(
            m.ListConfigResourcesRequest(resource_types=list(kinds)), m.ListConfigResourcesResponse, version
        )
        return answer.error_code, {(each.resource_type, each.resource_name) for each in answer.config_resources}

    def test_groups_and_subscriptions_are_listed_once_something_is_set(self, wire: Wire, name: str) -> None:
        assert (GROUP, name) not in self.ask(wire, GROUP)[1]
        change(wire, GROUP, name, ("share.auto.offset.reset", SET, "earliest"))
        change(wire, METRICS, name, ("interval.ms", SET, "1000"))
        assert self.ask(wire, GROUP)[1] >= {(GROUP, name)}
        assert self.ask(wire)[1] >= {(GROUP, name), (METRICS, name)}

    def test_topics_are_listed_and_kinds_that_were_not_requested_are_not(self, wire: Wire, topic: str) -> None:
        code, found = self.ask(wire, TOPIC)
        assert (code, {kind for kind, _ in found}) == (NONE, {TOPIC})
        assert (TOPIC, topic) in found

    def test_version_0_lists_client_metrics_only(self, wire: Wire, name: str, topic: str) -> None:
        change(wire, METRICS, name, ("interval.ms", SET, "1000"))
        request = m.ListConfigResourcesRequest()
        answer = wire.ask(request, m.ListConfigResourcesResponse, 0)
        names = [each.resource_name for each in answer.config_resources]
        assert name in names
        assert topic not in names

    def test_a_kind_that_does_not_exist_is_unsupported(self, wire: Wire) -> None:
        assert self.ask(wire, 99) == (ErrorCode.UNSUPPORTED_VERSION, set())


def test_the_address_of_the_monitoring_endpoint_alone_is_described_to_every_user() -> None:
    listen = "penstock.metrics.listen"
    with Broker(users={"eve": "secret"}, acls=[]) as broker:

        async def main() -> None:
            async with Admin(broker.client_settings()) as admin:
                (node,) = (await admin.describe_cluster()).nodes
                found = await admin.describe_configs(ResourceType.BROKER, str(node.node_id), [listen])
                assert list(found) == [listen]
                for names in (None, [], ["log.dirs"], [listen, "log.dirs"]):
                    with pytest.raises(ClusterAuthorizationFailed):
                        await admin.describe_configs(ResourceType.BROKER, str(node.node_id), names)

        asyncio.run(main())
