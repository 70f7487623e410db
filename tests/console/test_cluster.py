"""The pages of the cluster and of its clients, against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.console.pages.clients import latencies
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor


def test_the_cluster_shows_brokers_disks_and_chores(
    console: Visitor, broker: Broker, with_admin: Callable[..., Any]
) -> None:
    shown = console.get("/cluster.json").json()
    (node,) = with_admin(lambda admin: admin.describe_cluster()).nodes
    (row,) = shown["brokers"]
    assert (row["broker"], row["host"], row["port"], row["fenced"]) == (node.node_id, node.host, node.port, False)
    (folder,) = shown["folders"]
    assert folder["total"] > folder["usable"] > 0
    assert "DESCRIBE" in shown["operations"]
    assert shown["ages"]
    assert str(node.port) in console.get("/cluster").text


def test_clients_shows_the_console_itself_among_the_connections(console: Visitor) -> None:
    shown = console.get("/clients.json").json()
    assert "penstock-console" in {row["clientId"] for row in shown["connections"]}
    assert console.get("/clients.json?q=nobody-has-this-name").json()["connections"] == []
    for row in shown["clients"]:
        assert console.get(f"/clients/{row['clientInstanceId']}").status_code == 200
    assert "penstock-console" in console.get("/clients").text
    assert console.get("/clients/none").status_code == 404


def test_of_a_clients_latencies_the_means_come_first_in_words() -> None:
    told = {
        "org.apache.kafka.consumer.fetch.manager.fetch.latency.max": 9.0,
        "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg": 3.0,
        "org.apache.kafka.consumer.fetch.manager.fetch.throttle.time.avg": 0.0,
        "org.apache.kafka.consumer.coordinator.heartbeat.response.time.max": 5.0,
        "org.apache.kafka.consumer.coordinator.commit.latency.avg": 2.0,
    }
    assert latencies({"latenciesMs": told}) == [
        ("commit latency, mean", 2.0),
        ("fetch latency, mean", 3.0),
        ("heartbeat response time, largest", 5.0),
    ]


def test_what_is_about_the_cluster_is_not_shown_to_who_may_not_describe_it(login_console: Visitor) -> None:
    login_console.log_in("alice")
    assert login_console.get("/clients.json").json()["connections"] == []
    assert "needs DESCRIBE on the cluster" in login_console.get("/clients").text
    shown = login_console.get("/cluster.json").json()
    assert (shown["ages"], shown["operations"], shown["folders"] or None) == ([], [], None)
    login_console.log_in("root")
    assert login_console.get("/clients.json").json()["connections"]
