"""Settings that promise what is not done are refused, at the start and at run time."""

from __future__ import annotations

import pytest

from penstock.broker.config import BROKER, BrokerConfig, ConfigError
from penstock.broker.config.refusals import check_promises
from penstock.broker.config.resolver import check_dynamic
from penstock.broker.foundation import Settings
from penstock.broker.server import Broker

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

REFUSED = [
    ("allow.everyone.if.no.acl.found", "false"),
    ("alter.config.policy.class.name", "com.example.Policy"),
    ("authorizer.class.name", "com.example.Authorizer"),
    ("client.quota.callback.class", "com.example.Quotas"),
    ("controller.quorum.bootstrap.servers", "a:9093,b:9093"),
    ("controller.quorum.voters", "1@a:9093,2@b:9093"),
    ("cordoned.log.dirs", "*"),
    ("create.topic.policy.class.name", "com.example.Policy"),
    ("listener.name.internal.scram-sha-256.sasl.jaas.config", "..."),
    ("listener.name.internal.ssl.engine.factory.class", "com.example.Engines"),
    ("leader.imbalance.check.interval.seconds", "60"),
    ("log.dirs", "/a,/b"),
    ("principal.builder.class", "com.example.Principals"),
    ("process.roles", "controller"),
    ("process.roles", "broker"),
    ("remote.log.storage.system.enable", "true"),
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    ("sasl.enabled.mechanisms", "PLAIN,GSSAPI"),
    ("sasl.oauthbearer.jwt.validator.class", "com.example.Validator"),
    ("sasl.server.callback.handler.class", "com.example.Handler"),
    ("ssl.engine.factory.class", "com.example.Engines"),
    ("ssl.keymanager.algorithm", "IbmX509"),
    ("ssl.provider", "BCFIPS"),
    ("ssl.secure.random.implementation", "SHA1PRNG"),
    ("ssl.trustmanager.algorithm", "Trusting"),
    ("super.users", "User:admin"),
    ("transaction.two.phase.commit.enable", "true"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_start_with_a_promise_that_is_not_kept_fails_and_says_why(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Cannot accept {name}.*: .+\. .+\.$"):
        BrokerConfig({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allow.everyone.if.no.acl.found", "true"),
        ("authorizer.class.name", ""),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("leader.imbalance.check.interval.seconds", "300"),
        ("listener.name.plaintext.ssl.client.auth", "none"),
        ("log.dirs", "/a"),
        ("process.roles", "broker,controller"),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        (
            "listener.name.outside.oauthbearer.sasl.server.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        ),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("security.inter.broker.protocol", "SASL_SSL"),
        ("ssl.client.auth", "required"),
        ("ssl.keymanager.algorithm", "PKIX"),
        ("ssl.enabled.protocols", "TLSv1.2, TLSv1.3"),
        ("ssl.protocol", "TLSv1.3"),
    ],
)
def test_what_promises_nothing_is_accepted(name: str, value: str) -> None:
    assert BrokerConfig({name: value}).is_set(name)


def test_every_default_can_be_written_out() -> None:
    for definition in BROKER.values():
        if definition.default is not None:
            check_promises({definition.name: definition.default})


@pytest.mark.parametrize(
    "name",
    [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.replication.factor",
    ],
)
def test_copies_are_refused_where_records_are_kept_once_and_accepted_in_a_cluster(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Cannot accept {name}=3: .+ or serve a cluster with --cluster and"):
        Broker(Settings(configs={name: "3"}))
    Broker(Settings(configs={name: "1"}))
    Broker(Settings(configs={name: "3"}, cluster="postgresql://db/penstock", store="s3://bucket"))


def test_a_secret_is_not_repeated() -> None:
    for name in ("listener.name.internal.plain.sasl.jaas.config", "sasl.jaas.config"):
        with pytest.raises(ConfigError) as raised:
            BrokerConfig({name: "hunter2"})
        assert "hunter2" not in str(raised.value)


class TestAuthorizer:
    @pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found"])
    def test_without_one_its_configs_are_refused_with_how_to_have_it(self, name: str) -> None:
        value = {"super.users": "User:admin"}.get(name, "false")
        with pytest.raises(ConfigError, match=r"authorizer\.class\.name is not set.*StandardAuthorizer"):
            BrokerConfig({name: value})
        BrokerConfig({name: value, "authorizer.class.name": STANDARD})

    def test_another_is_refused_with_the_one_that_is_there(self) -> None:
        with pytest.raises(ConfigError, match=f"Set it to {STANDARD}"):
            BrokerConfig({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})

    def test_a_super_user_without_a_kind_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="principalType:principalName but got admin"):
            BrokerConfig({"authorizer.class.name": STANDARD, "super.users": "User:a; admin"})

    def test_super_users_are_not_changed_at_run_time(self) -> None:
        with pytest.raises(ConfigError, match="Cannot update these configs dynamically"):
            check_dynamic({"super.users": "User:mallory"}, for_all_brokers=False)


class TestAtRunTime:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ssl.provider", "BCFIPS"),
            ("sasl.jaas.config", "..."),
            ("listener.name.internal.ssl.provider", "BCFIPS"),
        ],
    )
    def test_the_same_promises_are_refused(self, name: str, value: str) -> None:
        with pytest.raises(ConfigError, match=f"Cannot accept {name}"):
            check_dynamic({name: value}, for_all_brokers=False)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("listeners", "PLAINTEXT://:9094"),
            ("listener.security.protocol.map", "PLAINTEXT:SSL"),
            ("sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-256"),
        ],
    )
    def test_what_is_read_at_the_start_only_is_refused(self, name: str, value: str) -> None:
        with pytest.raises(ConfigError, match="Restart the broker with it"):
            check_dynamic({name: value}, for_all_brokers=False)
