"""A broker with a listener for each way of getting in, and the ways: what a client has to show, and where.

All ways share one broker, so that a matrix of clients and ways starts one process. A rule gives each way's principal
the topics and groups that begin with the way's name and nothing else: who gets anything done is who it claims to be.

$SECURED_BROKER=kafka turns the judge on Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from bench.certificates import Authority, Identity, broker_settings, pem_store
from bench.peers import HOST, SMALL_JVM_OPTIONS, KafkaPeer, Peer, PenstockPeer
from tests.clients.tokens import AUDIENCE, ISSUER, TokenIssuer, write_jwks

SECURITY = "org.apache.kafka.common.security"
PLAIN = f"{SECURITY}.plain.PlainLoginModule"
SCRAM = f"{SECURITY}.scram.ScramLoginModule"
OAUTHBEARER = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"
LOGIN = f"{SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
VALIDATOR = f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SCRAM_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
WAIT_S = 30
LISTENERS = {"SSL": "SSL", "MUTUAL": "SSL", "STRANGE": "SSL", "SASL_SSL": "SASL_SSL"}
"""Beside SASL_PLAINTEXT. MUTUAL wants a certificate; STRANGE has one for a host of another name."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get in, and what a client shows there."""

    name: str
    address: str
    protocol: str
    authority: Path
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    identity: Identity | None = None

    def but(self, **changes: object) -> Way:
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def principal(self) -> str:
        if self.mechanism:
            return f"User:{self.user}"
        return f"User:CN={self.user}" if self.identity else "User:ANONYMOUS"

    @property
    def prefix(self) -> str:
        """What the names of topics and groups that this way's principal may use begin with."""
        return f"{self.name}-"

    def java_properties(self, folder: Path) -> dict[str, str]:
        """What Apache's Java client is told; `folder` takes a file with the token, which Java must be allowed to read.

        The system property `ALLOWED_URLS` has to name that file (`token_url`).
        """
        properties = {"security.protocol": self.protocol}
        if self.has_tls:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.identity:
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem_store(self.identity))}
        if not self.mechanism:
            return properties
        properties["sasl.mechanism"] = self.mechanism
        if self.token:
            (folder / "token").write_text(self.token)
            properties["sasl.jaas.config"] = f"{OAUTHBEARER} required;"
            properties["sasl.login.callback.handler.class"] = LOGIN
            properties["sasl.oauthbearer.token.endpoint.url"] = token_url(folder)
        else:
            module = PLAIN if self.mechanism == "PLAIN" else SCRAM
            properties["sasl.jaas.config"] = f'{module} required username="{self.user}" password="{self.password}";'
        return properties


def token_url(folder: Path) -> str:
    return f"file://{folder}/token"


WAYS = ("tls", "mutual-tls", *(f"{m.lower()}{over}" for m in MECHANISMS for over in ("", "-over-tls")))


class Secured:
    """The running broker, and what a test needs to be somebody there."""

    def __init__(self, peer: Peer, folder: Path, authority: Authority, issuer: TokenIssuer) -> None:
        self.peer = peer
        self.issuer = issuer
        self.stranger = Authority(folder, "stranger")
        self._authority = authority
        self._client = authority.issue("client")
        admin = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "admin"}
        self.admin = AdminClient({"bootstrap.servers": peer.bootstrap, "sasl.password": "admin-secret", **admin})

    def way(self, name: str) -> Way:
        trusted = self._authority.certificate
        if name == "tls":
            return Way(name, self.peer.address("SSL"), "SSL", trusted)
        if name == "mutual-tls":
            address = self.peer.address("MUTUAL")
            return Way(name, address, "SSL", trusted, identity=self._client, user="client")
        mechanism = name.removesuffix("-over-tls").upper()
        protocol = "SASL_SSL" if name.endswith("-over-tls") else "SASL_PLAINTEXT"
        user = f"user-{name}"
        way = Way(name, self.peer.address(protocol), protocol, trusted, mechanism, user)
        if mechanism == "OAUTHBEARER":
            return way.but(token=self.issuer.token(user))
        return way.but(password=f"{user}-secret")

    def strange(self) -> Way:
        """TLS, to a broker whose certificate is for another host."""
        return self.way("tls").but(address=self.peer.address("STRANGE"))

    def add_user(self, user: str, password: str, mechanism: str) -> None:
        info = ScramCredentialInfo(SCRAM_MECHANISMS[mechanism], 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(WAIT_S)

    def remove_user(self, user: str, mechanism: str) -> None:
        change = UserScramCredentialDeletion(user, SCRAM_MECHANISMS[mechanism])
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(WAIT_S)

    def allow(self, principal: str, prefix: str) -> None:
        """Everything on the topics and groups that begin with `prefix`."""
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            pattern, everything = ResourcePatternType.PREFIXED, AclOperation.ALL
            rule = AclBinding(kind, prefix, pattern, principal, "*", everything, AclPermissionType.ALLOW)
            for future in self.admin.create_acls([rule]).values():
                future.result(WAIT_S)

    def share_from_the_start(self, group: str) -> None:
        """Share consumers of this group get what was produced before them."""
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    """The broker, with a user and a rule for each way."""
    authority = Authority(folder)
    issuer = TokenIssuer()
    jwks = write_jwks(folder / "jwks.json", issuer)
    peer = _peer(_settings(authority, jwks), jwks)
    with peer:
        secured = Secured(peer, folder, authority, issuer)
        for way in map(secured.way, WAYS):
            if way.mechanism in SCRAM_MECHANISMS:
                secured.add_user(way.user, way.password, way.mechanism)
            secured.allow(way.principal, way.prefix)
        yield secured


def _peer(settings: dict[str, str], jwks: Path) -> Peer:
    if os.environ.get("SECURED_BROKER") == "kafka":
        allowed = f"-D{ALLOWED_URLS}=file://{jwks}"
        options = (*SMALL_JVM_OPTIONS, allowed)
        return KafkaPeer(settings, jvm_options=options, protocol="SASL_PLAINTEXT", more_listeners=LISTENERS)
    return PenstockPeer(settings, protocol="SASL_PLAINTEXT", more_listeners=LISTENERS)


def _settings(authority: Authority, jwks: Path) -> dict[str, str]:
    broker = broker_settings(authority, authority.issue("broker", HOST))
    elsewhere = broker_settings(authority, authority.issue("elsewhere", "elsewhere.example"))
    plain_users = ["admin", *(f"user-{way}" for way in WAYS if way.startswith("plain"))]
    plain = " ".join(f'user_{user}="{user}-secret"' for user in plain_users)
    settings = {
        **broker,
        **{f"listener.name.strange.{name}": value for name, value in elsewhere.items()},
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "share.coordinator.state.topic.num.partitions": "2",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN} required {plain};"
        settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{SCRAM} required;"
        settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = f"{SCRAM} required;"
        settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{OAUTHBEARER} required;"
        settings[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = VALIDATOR
    return settings
