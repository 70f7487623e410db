"""`kafka-acls` and `kafka-configs` for users, as an administrator who logs in, against a broker that asks for it.

$SECURED_BROKER=kafka turns the judge on Apache Kafka.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import KafkaPeer, Peer, PenstockPeer, run_java_tool
from tests.java.test_kafka_tools import CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, GET_OFFSETS, TOPICS, run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

ACLS = "org.apache.kafka.tools.AclCommand"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Peer]:
    kind = KafkaPeer if os.environ.get("SECURED_BROKER") == "kafka" else PenstockPeer
    with kind(SETTINGS, protocol="SASL_PLAINTEXT") as peer:
        yield peer


class Login:
    """A properties file for `--command-config`, as somebody."""

    def __init__(self, folder: Path, peer: Peer) -> None:
        self._folder = folder
        self._peer = peer

    def __call__(self, user: str, password: str | None = None, mechanism: str = "PLAIN") -> tuple[str, ...]:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        file = self._folder / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password or f"{user}-secret"}";\n'
        )
        return ("--bootstrap-server", self._peer.bootstrap, "--command-config", str(file))


@pytest.fixture
def login(tmp_path: Path, secured: Peer) -> Login:
    return Login(tmp_path, secured)


@pytest.fixture
def topic(login: Login) -> str:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    run(TOPICS, *login("admin"), "--create", "--topic", name)
    return name


def rules(listed: str) -> set[str]:
    """`User:alice * READ ALLOW` for each rule that kafka-acls lists."""
    found = set()
    for line in listed.splitlines():
        if line.strip().startswith("(principal="):
            fields = dict(pair.split("=", 1) for pair in line.strip(" \t()").split(", "))
            found.add(" ".join(fields[name] for name in ("principal", "host", "operation", "permissionType")))
    return found


def wrote(login: Login, topic: str) -> bool:
    """Whether alice's line arrives; the console producer says nothing about it, and ends with code 0 either way."""
    command = (GET_OFFSETS, *login("admin"), "--topic", topic)
    before = run(*command)
    run_java_tool(CONSOLE_PRODUCER, *login("alice"), "--topic", topic, stdin="line\n")
    return run(*command) != before


def read(at: tuple[str, ...], topic: str, group: str) -> str:
    """What the console consumer reads, and how much it says that is; a refusal ends it."""
    wanted = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
    done = run_java_tool(CONSOLE_CONSUMER, *at, *wanted)
    return done.stdout + done.stderr


def test_kafka_acls_adds_lists_and_removes_a_rule(login: Login, topic: str) -> None:
    admin = login("admin")
    rule = ("--topic", topic, "--allow-principal", "User:alice", "--operation", "Read", "--operation", "Describe")
    run(ACLS, *admin, "--add", *rule, "--allow-host", "127.0.0.1")
    expected = {"User:alice 127.0.0.1 READ ALLOW", "User:alice 127.0.0.1 DESCRIBE ALLOW"}
    assert rules(run(ACLS, *admin, "--list", "--topic", topic)) == expected
    assert rules(run(ACLS, *admin, "--list", "--principal", "User:alice", "--topic", topic)) == expected
    run(ACLS, *admin, "--remove", "--force", *rule, "--allow-host", "127.0.0.1")
    assert rules(run(ACLS, *admin, "--list", "--topic", topic)) == set()


def test_the_producer_and_consumer_shorthands_allow_producing_and_consuming(login: Login, topic: str) -> None:
    admin, alice = login("admin"), login("alice")
    group = f"{topic}-group"
    assert not wrote(login, topic)
    run(ACLS, *admin, "--add", "--allow-principal", "User:alice", "--producer", "--topic", topic)
    assert rules(run(ACLS, *admin, "--list", "--topic", topic)) == {
        f"User:alice * {operation} ALLOW" for operation in ("WRITE", "DESCRIBE", "CREATE")
    }
    assert wrote(login, topic)
    assert "Processed a total of 0 messages" in read(alice, topic, group)
    run(ACLS, *admin, "--add", "--allow-principal", "User:alice", "--consumer", "--topic", topic, "--group", group)
    assert rules(run(ACLS, *admin, "--list", "--group", group)) == {"User:alice * READ ALLOW"}
    assert "line" in read(alice, topic, group).split()


def test_a_prefixed_rule_covers_names_and_a_deny_overrules_it(login: Login, topic: str) -> None:
    admin = login("admin")
    prefix = ("--topic", topic[:-2], "--resource-pattern-type", "prefixed")
    run(ACLS, *admin, "--add", "--allow-principal", "User:alice", "--operation", "Write", *prefix)
    assert wrote(login, topic)
    assert rules(run(ACLS, *admin, "--list", "--topic", topic)) == set(), "none bears this very name"
    matching = ("--list", "--topic", topic, "--resource-pattern-type", "match")
    assert rules(run(ACLS, *admin, *matching)) == {"User:alice * WRITE ALLOW"}
    run(ACLS, *admin, "--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", topic)
    assert rules(run(ACLS, *admin, *matching)) == {"User:alice * WRITE ALLOW", "User:alice * WRITE DENY"}
    assert not wrote(login, topic)


def test_kafka_acls_is_for_those_who_may_alter_the_cluster(login: Login, topic: str) -> None:
    for command in (("--list",), ("--add", "--allow-principal", "User:bob", "--operation", "All", "--topic", topic)):
        refused = run_java_tool(ACLS, *login("bob"), *command)
        assert "ClusterAuthorizationException" in refused.stdout + refused.stderr
    assert rules(run(ACLS, *login("admin"), "--list", "--topic", topic)) == set()


def test_a_wrong_password_is_told_as_such(login: Login) -> None:
    for user in ("admin", "nobody"):
        refused = run_java_tool(TOPICS, *login(user, "wrong"), "--list")
        assert refused.returncode == 1
        assert "Authentication failed" in refused.stdout


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafka_configs_adds_describes_and_deletes_a_scram_user(login: Login, topic: str, mechanism: str) -> None:
    admin = login("admin")
    user = f"user-{topic}"
    entity = ("--entity-type", "users", "--entity-name", user)
    run(CONFIGS, *admin, "--alter", *entity, "--add-config", f"{mechanism}=[iterations=8192,password=first]")
    described = run(CONFIGS, *admin, "--describe", *entity)
    assert f"SCRAM credential configs for user-principal '{user}' are {mechanism}=iterations=8192" in described
    assert "first" not in described
    run(TOPICS, *login(user, "first", mechanism), "--list")
    run(CONFIGS, *admin, "--alter", *entity, "--add-config", f"{mechanism}=[password=second]")
    assert f"{mechanism}=iterations=4096" in run(CONFIGS, *admin, "--describe", *entity)
    run(TOPICS, *login(user, "second", mechanism), "--list")
    run(CONFIGS, *admin, "--alter", *entity, "--delete-config", mechanism)
    assert mechanism not in run(CONFIGS, *admin, "--describe", *entity)
    gone = run_java_tool(TOPICS, *login(user, "second", mechanism), "--list")
    assert "Authentication failed" in gone.stdout


USER = ("--entity-type", "users", "--entity-name", "alice")
EVERY_USER = ("--entity-type", "users", "--entity-default")
CLIENT = ("--entity-type", "clients", "--entity-name", "loader")
EVERY_CLIENT = ("--entity-type", "clients", "--entity-default")


@pytest.mark.parametrize(
    ("entity", "title"),
    [
        (USER, "user-principal 'alice'"),
        (EVERY_USER, "the default user-principal"),
        (CLIENT, "client-id 'loader'"),
        (EVERY_CLIENT, "the default client-id"),
        ((*USER, *CLIENT), "user-principal 'alice', client-id 'loader'"),
        ((*USER, *EVERY_CLIENT), "user-principal 'alice', the default client-id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kafka_configs_sets_describes_and_removes_quotas(login: Login, entity: tuple[str, ...], title: str) -> None:
    admin = login("admin")
    set_ = "producer_byte_rate=1048576,consumer_byte_rate=2097152,request_percentage=50,controller_mutation_rate=5"
    run(CONFIGS, *admin, "--alter", *entity, "--add-config", set_)
    line = quota_line(run(CONFIGS, *admin, "--describe", *entity), title)
    for quota in ("producer_byte_rate=1048576.0", "consumer_byte_rate=2097152.0", "request_percentage=50.0"):
        assert quota in line
    assert "controller_mutation_rate=5.0" in line
    every = ",".join(pair.partition("=")[0] for pair in set_.split(","))
    run(CONFIGS, *admin, "--alter", *entity, "--delete-config", every)
    assert "byte_rate" not in run(CONFIGS, *admin, "--describe", *entity)


def quota_line(described: str, title: str) -> str:
    return next(line for line in described.splitlines() if line.startswith(f"Quota configs for {title} are "))


def test_kafka_configs_limits_the_connections_of_an_address(login: Login) -> None:
    admin = login("admin")
    entity = ("--entity-type", "ips", "--entity-name", "192.0.2.7")
    run(CONFIGS, *admin, "--alter", *entity, "--add-config", "connection_creation_rate=7")
    described = run(CONFIGS, *admin, "--describe", *entity)
    assert "connection_creation_rate=7.0" in quota_line(described, "ip '192.0.2.7'")
    run(CONFIGS, *admin, "--alter", *entity, "--delete-config", "connection_creation_rate")
    assert "connection_creation_rate" not in run(CONFIGS, *admin, "--describe", *entity)
