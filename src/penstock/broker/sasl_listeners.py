"""What a listener with SASL takes: which mechanisms, with which users, keys and limits, by its configs.

`sasl.enabled.mechanisms` names the mechanisms. Where nobody sets it, Kafka's default is GSSAPI (Kerberos), which
Penstock does not have: then SCRAM is enabled, and over TLS PLAIN too. Configs are read when a client begins, so those
that may change at run time count from the next client on.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from penstock.broker.config.definitions import ConfigError
from penstock.broker.config.refusals import SASL_MECHANISMS
from penstock.broker.key_sets import SCHEMES, KeySet
from penstock.broker.mechanisms import (
    Exchange,
    JaasPlainExchange,
    OAuthBearerExchange,
    PlainExchange,
    ScramExchange,
)
from penstock.broker.password_checks import PasswordChecks
from penstock.security import oauthbearer, plain, scram
from penstock.security.jaas import PLAIN_LOGIN_MODULE, JaasError, parse_jaas_entry
from penstock.security.oauthbearer import ClaimRules

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.config.listeners import ListenerConfig
    from penstock.broker.credentials import Users
    from penstock.broker.listeners import Address
    from penstock.broker.world import World

log = logging.getLogger("penstock.broker")

SCRAM = tuple(each for each in SASL_MECHANISMS if each in scram.MECHANISMS)
_ENABLED = "sasl.enabled.mechanisms"
_JAAS = "sasl.jaas.config"
_JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_NONCE_BYTES = 24


class SaslListeners:
    """The listeners with SASL, and what they share: users, checks of passwords, keys of tokens."""

    def __init__(self, config: BrokerConfig, users: Users, world: World) -> None:
        self._config = config
        self.users = users
        self.world = world
        self.password_checks = PasswordChecks(world)
        self._listeners: dict[str, SaslListener] = {}
        self._key_sets: dict[str, KeySet] = {}

    def prepare(self, address: Address) -> None:
        """Check the configs of a listener, and have its keys fetched. Raises ConfigError with what to write."""
        listener = SaslListener(address, self._config.for_listener(address.name), self)
        listener.check()
        self._listeners[address.name] = listener

    def __getitem__(self, name: str) -> SaslListener:
        return self._listeners[name]

    def key_set(self, url: str, refresh_ms: int) -> KeySet:
        if url not in self._key_sets:
            self._key_sets[url] = KeySet(url, refresh_ms, self.world)
            self._key_sets[url].start()
        return self._key_sets[url]

    def stop(self) -> None:
        for key_set in self._key_sets.values():
            key_set.stop()


class SaslListener:
    def __init__(self, address: Address, config: ListenerConfig, shared: SaslListeners) -> None:
        self.name = address.name
        self._has_tls = address.protocol.has_tls
        self._config = config
        self._shared = shared

    @property
    def max_receive_bytes(self) -> int:
        return int(self._config.text("sasl.server.max.receive.size"))

    def max_reauth_ms(self, mechanism: str) -> int:
        return int(self._config.text("connections.max.reauth.ms", mechanism))

    def mechanisms(self) -> list[str]:
        """The mechanisms that are enabled, in the order in which clients are told."""
        if not self._config.is_set(_ENABLED):
            return [*SCRAM, plain.MECHANISM] if self._has_tls else list(SCRAM)
        return [each for each in dict.fromkeys(self._config.items(_ENABLED)) if each in SASL_MECHANISMS]

    def new_exchange(self, mechanism: str) -> Exchange:
        shared = self._shared
        if mechanism in scram.MECHANISMS:
            return ScramExchange(scram.MECHANISMS[mechanism], shared.users, secrets.token_urlsafe(_NONCE_BYTES))
        if mechanism == plain.MECHANISM:
            passwords = self._jaas_users()
            return JaasPlainExchange(passwords) if passwords else PlainExchange(shared.users, shared.password_checks)
        return OAuthBearerExchange(self._key_set(), self._claim_rules(), shared.world.now_ms)

    def check(self) -> None:
        """Raise ConfigError, with what to write, for what cannot be done; and have keys fetched that will be needed."""
        named = self._config.items(_ENABLED) if self._config.is_set(_ENABLED) else []
        unknown = [each for each in named if each not in SASL_MECHANISMS]
        if unknown or (self._config.is_set(_ENABLED) and not named):
            raise ConfigError(
                f"Cannot accept {self._config.name_of(_ENABLED)}={','.join(named)}: "
                f"{f'Penstock does not have {unknown[0]}' if unknown else 'clients could not authenticate'}. "
                f"Name some of {', '.join(SASL_MECHANISMS)}."
            )
        enabled = self.mechanisms()
        if plain.MECHANISM in enabled:
            self._jaas_users()
            if not self._has_tls:
                log.warning("listener %s accepts unencrypted passwords: it offers PLAIN without TLS", self.name)
        if oauthbearer.MECHANISM in enabled:
            self._check_tokens()

    def _jaas_users(self) -> dict[str, str]:
        """The users and passwords that the listener's config names for PLAIN."""
        text = self._config.text(_JAAS, plain.MECHANISM)
        if not text:
            return {}
        try:
            entry = parse_jaas_entry(text)
        except JaasError as error:
            raise ConfigError(f"Cannot accept {self._config.name_of(_JAAS, plain.MECHANISM)}: {error}.") from None
        return entry.users if entry.login_module == PLAIN_LOGIN_MODULE else {}

    def _check_tokens(self) -> None:
        try:
            oauthbearer.import_jwt()
        except ModuleNotFoundError as error:
            raise ConfigError(f"Cannot enable OAUTHBEARER on listener {self.name}: {error}.") from None
        url = self._config.text(_JWKS_URL, oauthbearer.MECHANISM)
        if url.partition("://")[0] not in SCHEMES:
            raise ConfigError(
                f"Cannot enable OAUTHBEARER on listener {self.name}: tokens are checked against a key set. Set "
                f"{_JWKS_URL} to its address, which begins with {', '.join(f'{each}://' for each in SCHEMES)}."
            )
        self._key_set()

    def _key_set(self) -> KeySet:
        mechanism = oauthbearer.MECHANISM
        refresh_ms = int(self._config.text("sasl.oauthbearer.jwks.endpoint.refresh.ms", mechanism))
        return self._shared.key_set(self._config.text(_JWKS_URL, mechanism), refresh_ms)

    def _claim_rules(self) -> ClaimRules:
        config, mechanism = self._config, oauthbearer.MECHANISM
        return ClaimRules(
            issuer=config.text("sasl.oauthbearer.expected.issuer", mechanism) or None,
            audiences=config.items("sasl.oauthbearer.expected.audience", mechanism),
            clock_skew_seconds=int(config.text("sasl.oauthbearer.clock.skew.seconds", mechanism)),
            principal_claim=config.text("sasl.oauthbearer.sub.claim.name", mechanism),
            scope_claim=config.text("sasl.oauthbearer.scope.claim.name", mechanism),
        )
