"""Settings that promise something this broker does not do, and are refused for that reason.

Most configs without an effect do no harm: they are accepted and reported (`broker_unused`). The ones here are what
people rely on: whoever names a keystore believes that connections are encrypted, whoever asks for three replicas
believes that there are two more copies. So a broker does not start with them, and a change at run time is refused in
the same words. A value that promises nothing, such as Kafka's default, is accepted.

A feature that is served from now on is taken out of the tables of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.broker.config.broker import BROKER
from penstock.broker.config.definitions import ConfigError
from penstock.broker.config.listeners import PROTOCOL_MAP, bare_name
from penstock.broker.config.providers import PROVIDERS, is_variable

SASL_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
"""The mechanisms that clients may use."""

_OPENSSL = "Penstock uses OpenSSL, and no security provider of Java"
_NO_CLASSES = "Penstock runs no Java classes, so clients would be authenticated in another way"
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_AUTHORIZER = "authorizer.class.name"
_NO_AUTHORIZER = f"{_AUTHORIZER} is not set, so every client can read, write and delete"
_NO_POLICIES = "Penstock runs no Java classes, so the policy would not be enforced"
_ONE_COPY = "records are kept once, in this data folder, so there would be no further copy of them"
_NO_QUORUM = "Penstock is broker and controller in one process and joins no other cluster"
_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer."
_KAFKA_VALIDATORS = (
    _OAUTHBEARER + "BrokerJwtValidator",
    _OAUTHBEARER + "DefaultJwtValidator",
    _OAUTHBEARER + "OAuthBearerValidatorCallbackHandler",
    _OAUTHBEARER + "secured.OAuthBearerValidatorCallbackHandler",
)
"""Classes that Kafka brings along and that check tokens against a key set, as Penstock does."""
_REMOVE = "Remove it"
_ONE_REPLICA = "Set it to 1, or serve a cluster with --cluster and --store"


@dataclass(frozen=True, slots=True)
class _Rule:
    promises: Callable[[str], bool]
    """Whether a value, other than the default, asks for what is not done."""
    reason: str
    remedy: str = _REMOVE


def _any(value: str) -> bool:
    return bool(value)


def _true(value: str) -> bool:
    return value.lower() == "true"


def _several(value: str) -> bool:
    return len([item for item in value.split(",") if item.strip()]) > 1


def _above_one(value: str) -> bool:
    return int(value) > 1


def _lacks_a_role(value: str) -> bool:
    return {"broker", "controller"} != {role.strip() for role in value.split(",")}


def _is_no_jaas(value: str) -> bool:
    from penstock.security.jaas import JaasError, parse_jaas_entry

    try:
        return not parse_jaas_entry(value)
    except JaasError:
        return True


def _has_unknown_mechanism(value: str) -> bool:
    return not {item.strip() for item in value.split(",")} <= set(SASL_MECHANISMS)


_RULES: dict[str, _Rule] = {
    "alter.config.policy.class.name": _Rule(_any, _NO_POLICIES),
    _AUTHORIZER: _Rule(
        lambda value: value != _STANDARD_AUTHORIZER,
        "Penstock runs no Java classes, so its rules would not be enforced",
        f"Set it to {_STANDARD_AUTHORIZER}, whose rules Penstock enforces",
    ),
    "client.quota.callback.class": _Rule(_any, "Penstock runs no Java classes, and enforces quotas with Kafka's rules"),
    "controller.quorum.bootstrap.servers": _Rule(_several, _NO_QUORUM),
    "controller.quorum.voters": _Rule(_several, _NO_QUORUM),
    "cordoned.log.dirs": _Rule(_any, "Penstock keeps everything in one folder and goes on to create partitions there"),
    "create.topic.policy.class.name": _Rule(_any, _NO_POLICIES),
    "leader.imbalance.check.interval.seconds": _Rule(
        _any,
        "brokers look at who leads how many partitions whenever that has changed, and every few seconds",
        "Remove it; auto.leader.rebalance.enable=false keeps leaders where they are",
    ),
    "log.dir": _Rule(_several, "Penstock keeps everything in one folder", "Name that folder"),
    "log.dirs": _Rule(_several, "Penstock keeps everything in one folder", "Name that folder"),
    "principal.builder.class": _Rule(_any, "Penstock runs no Java classes, so principals would have other names"),
    "process.roles": _Rule(_lacks_a_role, _NO_QUORUM, "Remove it, or set it to broker,controller"),
    "remote.log.storage.system.enable": _Rule(_true, "Penstock has no tiered storage"),
    "replica.selector.class": _Rule(
        lambda value: value != "org.apache.kafka.common.replica.LeaderSelector",
        "consumers read from leaders only, so none would read from a replica in its own rack",
    ),
    "sasl.enabled.mechanisms": _Rule(
        _has_unknown_mechanism,
        "Penstock does not have all of these mechanisms",
        f"Name some of {', '.join(SASL_MECHANISMS)}",
    ),
    "sasl.jaas.config": _Rule(
        _is_no_jaas,
        "it is not an entry of a JAAS configuration",
        'Write LOGIN_MODULE required NAME="VALUE" ...; with a semicolon at the end',
    ),
    "sasl.oauthbearer.jwt.validator.class": _Rule(lambda value: value not in _KAFKA_VALIDATORS, _NO_CLASSES),
    "sasl.server.callback.handler.class": _Rule(lambda value: value not in _KAFKA_VALIDATORS, _NO_CLASSES),
    "security.providers": _Rule(_any, "Penstock runs no Java classes"),
    "ssl.engine.factory.class": _Rule(_any, "Penstock runs no Java classes"),
    "ssl.keymanager.algorithm": _Rule(lambda value: value not in ("SunX509", "NewSunX509", "PKIX"), _OPENSSL),
    "ssl.provider": _Rule(_any, _OPENSSL),
    "ssl.secure.random.implementation": _Rule(_any, _OPENSSL),
    "ssl.trustmanager.algorithm": _Rule(lambda value: value not in ("PKIX", "SunX509"), _OPENSSL),
    "transaction.two.phase.commit.enable": _Rule(_true, "Penstock has no two-phase commit (KIP-939)"),
}


_OF_THE_AUTHORIZER = {
    "allow.everyone.if.no.acl.found": _Rule(lambda value: not _true(value), _NO_AUTHORIZER),
    "super.users": _Rule(_any, _NO_AUTHORIZER),
}
"""What promises something only while nothing decides what clients may do."""

_COPIES = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
"""What promises something only where leaders move. Kafka's default is 3 for most: naming it is a promise."""

_AT_THE_START_ONLY = {
    "listeners": "Penstock opens its listeners at startup only",
    PROTOCOL_MAP: "Penstock opens its listeners at startup only",
    "sasl.mechanism.inter.broker.protocol": "Penstock reads it at startup only",
}
"""What Kafka follows when it changes."""


def check_promises(configs: Mapping[str, str]) -> None:
    """Raise ConfigError if one of these well-formed configs promises what is not done."""
    for name, value in configs.items():
        bare = bare_name(name)
        rule = _RULES.get(bare)
        if rule is not None and not _is_default(bare, value) and rule.promises(value.strip()):
            raise ConfigError(f"Cannot accept {_shown(bare, name, value)}: {rule.reason}. {rule.remedy}.")


def check_authorizer(configs: Mapping[str, str]) -> None:
    """Raise ConfigError if these configs, all that a broker starts with, describe an authorizer that is not there."""
    if configs.get(_AUTHORIZER, "").strip():
        return
    for name, rule in _OF_THE_AUTHORIZER.items():
        if name in configs and rule.promises(configs[name].strip()):
            remedy = f"Set {_AUTHORIZER}={_STANDARD_AUTHORIZER}, or remove it"
            raise ConfigError(f"Cannot accept {name}={configs[name].strip()}: {rule.reason}. {remedy}.")


def check_copies(configs: Mapping[str, str]) -> None:
    """Raise ConfigError if these configs promise copies of records to a broker that keeps them in its data folder."""
    for name in _COPIES:
        if name in configs and _above_one(configs[name]):
            raise ConfigError(f"Cannot accept {name}={configs[name].strip()}: {_ONE_COPY}. {_ONE_REPLICA}.")


def check_promises_at_run_time(configs: Mapping[str, str]) -> None:
    """As `check_promises`, for configs of a broker that is running."""
    for name, reason in _AT_THE_START_ONLY.items():
        if name in configs:
            raise ConfigError(f"Cannot accept {name}={configs[name]}: {reason}. Restart the broker with it.")
    for name, value in configs.items():
        if name == PROVIDERS or is_variable(value):
            raise ConfigError(
                f"Cannot accept {name}={value.strip()}: Penstock resolves variables at startup only. "
                "Restart the broker with it."
            )
    check_promises(configs)


def _is_default(name: str, value: str) -> bool:
    definition = BROKER.get(name)
    if definition is None or definition.default is None:
        return False
    return definition.parse(value) == definition.default_value()


def _shown(bare: str, name: str, value: str) -> str:
    """A secret is not repeated, nor is what may be one."""
    definition = BROKER.get(bare)
    return name if definition is None or definition.is_sensitive else f"{name}={value.strip()}"
