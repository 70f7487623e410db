"""Who changed what is written to the log."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from penstock.testing import Broker


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
