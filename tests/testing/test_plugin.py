from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from penstock.testing import Broker
from penstock.testing.callable_broker import CallableBroker


def test_the_fixture_is_a_running_broker(penstock_broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    assert len(admin.list_topics(timeout=20).brokers) == 1


@pytest.mark.penstock(num_partitions=3)
def test_the_marker_sets_broker_configs(penstock_broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.BROKER, "1")
    assert admin.describe_configs([resource])[resource].result(20)["num.partitions"].value == "3"


@pytest.mark.penstock(acls=["* create cluster"], num_partitions=2)
def test_the_marker_sets_rules_too(penstock_broker: Broker) -> None:
    admin = AdminClient(penstock_broker.librdkafka())
    admin.create_topics([NewTopic("t")])["t"].result(20)
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])[
            ConfigResource(ResourceType.BROKER, "1")
        ].result(20)


def test_called_the_fixture_starts_another_broker(penstock_broker: CallableBroker) -> None:
    other = penstock_broker({"num.partitions": 3}, super_users=["ANONYMOUS"])
    assert other.port != penstock_broker.port
    admin = AdminClient(other.librdkafka())
    assert len(admin.list_topics(timeout=20).brokers) == 1


def test_the_session_fixture_is_one_broker_for_all_tests(tmp_path: Path) -> None:
    """In a session of its own: one that is spread over several processes has a broker in each of them."""
    (tmp_path / "test_two.py").write_text(
        textwrap.dedent(
            """
            def test_first(penstock_session_broker):
                penstock_session_broker.create_topic("t")

            def test_second(penstock_session_broker):
                from confluent_kafka.admin import AdminClient

                admin = AdminClient({"bootstrap.servers": penstock_session_broker.bootstrap_servers})
                assert "t" in admin.list_topics(timeout=20).topics
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_two.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "2 passed" in done.stdout, done.stdout


def test_the_plugin_does_not_import_the_broker() -> None:
    """It is loaded in every pytest run of whoever has Penstock installed."""
    code = "import penstock.testing.plugin, sys; assert not any(m.startswith('penstock.broker') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
