"""Who changed what is written to the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from penstock.broker import connection as broker_connection
from penstock.broker.audit import audited
from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.client import sync
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.security.principals import Principal
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(each.levelno, each.getMessage()) for each in caplog.records if each.name == "penstock.audit"]


def test_a_change_names_who_made_it_what_it_is_about_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.audit"), Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "ops"})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        with pytest.raises(Exception, match=r"TOPIC_ALREADY_EXISTS|already exists"):
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        resource = ConfigResource(ResourceType.TOPIC, "orders", set_config={"retention.ms": "12345"})
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            admin.alter_configs([resource])[resource].result(30)
        broker.stop()
    done, refused, altered = lines(caplog)
    who = "by 'User:ANONYMOUS' from 127.0.0.1, client 'ops', of 'orders'"
    assert done == (logging.INFO, f"CreateTopics {who}: done")
    assert refused == (logging.WARNING, f"CreateTopics {who}: TOPIC_ALREADY_EXISTS")
    assert altered[1].startswith("AlterConfigs by 'User:ANONYMOUS'")
    assert "12345" not in altered[1]


def test_a_request_for_very_many_things_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.audit"), Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.create_topics([NewTopic(f"t{number}", 1, 1) for number in range(30)]).values():
            future.result(30)
        broker.stop()
    [(_, line)] = lines(caplog)
    assert line.count("'t") == 10
    assert "and more" in line


def test_what_is_answered_later_is_told_with_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.audit"), Broker() as broker:
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            broker.create_topic("orders", 1)
            admin.alter_group_offsets("workers", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
            admin.delete_groups(["workers"])
        broker.stop()
    who = "by 'User:ANONYMOUS' from 127.0.0.1, client 'penstock'"
    assert lines(caplog)[-1] == (logging.INFO, f"DeleteGroups {who}, of 'workers': done")


class Connection:
    principal = Principal("User", "alice")
    peer_host = "10.0.0.1"

    def respond(self, request: AnyRequest, response: m.Message) -> None: ...

    def close(self) -> None: ...


def elect() -> AnyRequest:
    body = m.ElectLeadersRequest(topic_partitions=[m.ElectLeadersRequest.TopicPartitions("orders", [0])])
    return Request(cast("broker_connection.Connection", Connection()), ApiKey.ELECT_LEADERS, 2, 1, "ops", body, [])


REFUSED = m.ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER)
LINE = "ElectLeaders by 'User:alice' from 10.0.0.1, client 'ops', of 'orders': "


async def test_of_a_deferred_answer_the_line_waits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.audit"):
        endings: list[tuple[Callable[[Any], object], tuple[int, str]]] = [
            (lambda pending: pending.complete(m.ElectLeadersResponse()), (logging.INFO, LINE + "done")),
            (lambda pending: pending.complete(REFUSED), (logging.WARNING, LINE + "NOT_CONTROLLER")),
            (lambda pending: pending.close_connection(), (logging.WARNING, LINE + "no answer")),
        ]
        for end, outcome in endings:
            caplog.clear()
            pending = audited(ApiKey.ELECT_LEADERS, lambda request: request.defer())(elect())
            assert lines(caplog) == []
            end(pending)
            assert lines(caplog) == [outcome]


async def test_of_a_handler_that_waits_or_fails_the_outcome_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def wait(request: AnyRequest) -> Answer:
        await asyncio.sleep(0)
        return REFUSED

    async def wait_in_vain(request: AnyRequest) -> Answer:
        await asyncio.sleep(0)
        raise OSError("the disk is gone")

    def fail(request: AnyRequest) -> Answer:
        raise OSError("the disk is gone")

    with caplog.at_level(logging.INFO, "penstock.audit"):
        answer = audited(ApiKey.ELECT_LEADERS, wait)(elect())
        assert isinstance(answer, Awaitable)
        assert await answer is REFUSED
        failing = audited(ApiKey.ELECT_LEADERS, wait_in_vain)(elect())
        assert isinstance(failing, Awaitable)
        with pytest.raises(OSError):
            await failing
        with pytest.raises(OSError):
            audited(ApiKey.ELECT_LEADERS, fail)(elect())
    assert [text for _, text in lines(caplog)] == [
        LINE + "NOT_CONTROLLER",
        LINE + "failed: OSError",
        LINE + "failed: OSError",
    ]
