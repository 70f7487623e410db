"""TLS of this broker as a client of other brokers: the configs of the listener between them, from the other side.

As in Kafka the same `ssl.*` serve both sides of the listener: the keystore is shown to other brokers, where they want a
certificate (`ssl.client.auth`), and theirs has to be signed by what is in the truststore, or by an authority that the
system trusts where there is none, and be for the host that they advertise (`ssl.endpoint.identification.algorithm`).
Files and configs that have changed are read again before the next connection is opened.
"""

from __future__ import annotations

import logging
import ssl

from penstock.broker.config.definitions import ConfigError
from penstock.broker.config.listeners import ListenerConfig
from penstock.broker.tls import look, show_certificate, trust
from penstock.broker.tls_ciphers import restrict
from penstock.broker.tls_stores import read_truststore

log = logging.getLogger("penstock.peers")

_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_ROUNDS = 8
"""A handshake in memory takes three."""


class TlsClient:
    def __init__(self, config: ListenerConfig, listener_name: str) -> None:
        """Raises ConfigError with what to do."""
        self._config = config
        self._listener_name = listener_name
        self._seen = self._look()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._load()
            except ConfigError as error:
                log.error("connections to other brokers keep their certificates, new ones cannot be used: %s", error)
        return self._context

    def check(self, server: ssl.SSLContext, host: str) -> None:
        """Raise ConfigError if brokers with these configs could not connect to a listener with these configs.

        `server` is the context of this broker's listener, `host` where it is advertised.
        """
        try:
            _shake_hands(self._context, server, host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message
            name = self._config.name_of("ssl.truststore.location")
            raise ConfigError(
                f"Brokers could not reach each other through listener {self._listener_name}, because they would not "
                f"trust each other's certificates ({why}). {name} has to hold the authority that has signed them, and "
                f"that of this broker has to be for {host}, which it advertises. `penstock tls create` makes such "
                "certificates."
            ) from None
        except ssl.SSLError as error:
            raise ConfigError(
                f"Brokers could not reach each other through listener {self._listener_name}: {error.reason or error}."
            ) from None

    def _look(self) -> tuple[object, ...]:
        return (*look(self._config), self._config.text(_IDENTIFICATION))

    def _load(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        restrict(context, config.items("ssl.enabled.protocols"), config.items("ssl.cipher.suites"))
        identification = config.text(_IDENTIFICATION).lower()
        if identification not in ("", "https"):
            raise ConfigError(
                f"Cannot accept {config.name_of(_IDENTIFICATION)}={identification}: use https, or nothing, which lets "
                "other brokers have a certificate for another host."
            )
        context.check_hostname = bool(identification)
        show_certificate(context, config)
        trusted = read_truststore(config)
        if trusted:
            trust(context, trusted)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """A handshake in memory. Raises SSLError if the two do not come together."""
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(downward, upward, server_hostname=host)
    answering = server.wrap_bio(upward, downward, server_side=True)
    for _ in range(_ROUNDS):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
