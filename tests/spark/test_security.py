"""TLS and SASL as options of Spark: what they mean, that they travel, and that secrets stay secret."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.errors import UsageError
from penstock.client.security import SecurityConfig
from penstock.spark.fetching import FetchSettings
from penstock.spark.options import parse_options
from penstock.spark.pipelines import Pipeline, Reach, TopicSink
from penstock.spark.security import NO_SECURITY, as_options, is_security_option, security_in, security_of
from penstock.spark.sink import parse_sink_options
from penstock.spark.source import settings_of

SECURE = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="lake" password="Hunter2";'
    ),
    "kafka.ssl.truststore.location": "/ca.pem",
    "kafka.ssl.endpoint.identification.algorithm": "",
}
SOURCE = {"kafka.bootstrap.servers": "broker:9093", "subscribe": "t", **SECURE}


def test_kafkas_options_mean_the_clients_settings() -> None:
    security = security_in(SOURCE)
    assert (security.security_protocol, security.sasl_mechanism) == ("sasl_ssl", "SCRAM-SHA-512")
    assert (security.ssl_cafile, security.ssl_check_hostname) == ("/ca.pem", False)
    assert security_in({name.lower(): value for name, value in SOURCE.items()}) == security
    assert security_in({"kafka.bootstrap.servers": "broker:9092"}) == NO_SECURITY


def test_options_and_settings_are_translated_both_ways() -> None:
    security = security_in(SOURCE)
    assert all(is_security_option(name) for name in as_options(security))
    assert security_in(as_options(security)) == security


def test_a_function_cannot_travel_as_an_option() -> None:
    security = security_of(
        {
            "security_protocol": "sasl_ssl",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": lambda: ("abc", 4e9),
        }
    )
    with pytest.raises(UsageError, match="module:function"):
        as_options(security)


def test_source_and_sink_take_them_and_hand_them_to_their_tasks() -> None:
    source = parse_options(SOURCE)
    sink = parse_sink_options({"kafka.bootstrap.servers": "broker:9093", "topic": "t", **SECURE}, ["value"])
    assert source.security == sink.security == security_in(SOURCE)
    fetch: FetchSettings = pickle.loads(pickle.dumps(settings_of(source)))
    assert fetch.security == source.security
    assert "Hunter2" in str(sink.producer_settings(0, "p")["sasl_jaas_config"])


def test_no_secret_is_in_a_repr() -> None:
    source = parse_options(SOURCE)
    for value in (source, settings_of(source), source.security):
        assert "Hunter2" not in repr(value)


def test_a_jaas_entry_that_cannot_be_read_is_refused_before_a_task_starts() -> None:
    with pytest.raises(UsageError, match="sasl_jaas_config cannot be read"):
        parse_options({**SOURCE, "kafka.sasl.jaas.config": "nonsense"})


def test_a_pipelines_own_security_wins_over_that_of_the_command() -> None:
    declared = Pipeline(name="p", topics=["t"], sink=TopicSink("out"), options=SECURE)
    bare = Pipeline(name="p", topics=["t"], sink=TopicSink("out"))
    command = {"security_protocol": "ssl", "ssl_cafile": "/other.pem"}
    assert Reach.of(declared, "broker:9093", command).security == security_in(SECURE)
    reach = Reach.of(bare, "broker:9093", command)
    assert reach.security == SecurityConfig(security_protocol="ssl", ssl_cafile="/other.pem")
    assert reach.options() == {
        "kafka.bootstrap.servers": "broker:9093",
        "kafka.security.protocol": "ssl",
        "kafka.ssl.cafile": "/other.pem",
    }
