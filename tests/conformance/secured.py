"""The secured brokers: users who log in by SASL/PLAIN, an administrator, and Kafka's authorizer.

Rules about the cluster bind every conversation at once, so each user who holds one holds it from the start. Everything
else that users may do, a conversation allows them itself, under names of its own (`rights`).
"""

from __future__ import annotations

from bench.peers import HOST, SMALL_JVM_OPTIONS, KafkaPeer, PenstockPeer, free_port

from .conversation import Conversation
from .rights import ALL, CLUSTER, DENY, GROUP, TOPIC, TRANSACTIONAL_ID, grant, rule

ON_THE_CLUSTER = {
    "describer": 8,
    "alterer": 7,
    "creator": 5,
    "actor": 9,
    "config-reader": 10,
    "config-writer": 11,
    "idempotent": 12,
}
"""Users who may do one thing to the cluster: the operation."""
USERS = ("admin", "alice", "bob", "nobody", "owner", "outcast", *ON_THE_CLUSTER)
PASSWORDS = {user: f"{user}-secret" for user in USERS}
ADMINISTRATOR = USERS[0]

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())

SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {PLAIN_USERS};",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "connections.max.reauth.ms": "3600000",
    "log.retention.ms": "-1",  # the records of the conversations are years old
}


class SecuredKafkaPeer(KafkaPeer):
    """Its own requests come through a listener that no conversation knows, as a super user without a name."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings, jvm_options=SMALL_JVM_OPTIONS)
        inside, controller = free_port(), self.controller_port
        listeners = {"SASL_PLAINTEXT": self.port, "INTERNAL": inside}
        advertised = ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())
        self.settings |= {
            **SECURITY,
            "super.users": f"User:{ADMINISTRATOR};User:ANONYMOUS",
            "listeners": f"{advertised},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": advertised,
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": ",".join(
                ("SASL_PLAINTEXT:SASL_PLAINTEXT", "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT")
            ),
        }

    def start(self) -> SecuredKafkaPeer:
        super().start()
        allow_on_the_cluster(self.port)
        return self


class SecuredPenstockPeer(PenstockPeer):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__({**settings, **SECURITY, "super.users": f"User:{ADMINISTRATOR}"})

    def command(self) -> list[str]:
        file = self.folder / "server.properties"
        listener = {"listeners": f"SASL_PLAINTEXT://{self.bootstrap}"}
        file.write_text("".join(f"{name}={value}\n" for name, value in {**self.settings, **listener}.items()))
        return [self.program(), "serve", "--data", str(self.data), "--properties", str(file)]

    def start(self) -> SecuredPenstockPeer:
        super().start()
        allow_on_the_cluster(self.port)
        return self


def allow_on_the_cluster(port: int) -> None:
    talk = Conversation(port, "stage", 0, passwords=PASSWORDS)
    rules = [rule(user, operation, CLUSTER, "kafka-cluster") for user, operation in ON_THE_CLUSTER.items()]
    everything = ((CLUSTER, "kafka-cluster"), (TOPIC, "*"), (GROUP, "*"), (TRANSACTIONAL_ID, "*"))
    for kind, name in everything:
        rules += [rule("owner", ALL, kind, name), rule("outcast", ALL, kind, name)]
    rules.append(rule("outcast", ALL, CLUSTER, "kafka-cluster", permission=DENY))
    try:
        grant(talk, *rules)
    finally:
        talk.close()
