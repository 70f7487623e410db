"""TLS of a listener: from `ssl.*` to a context for its connections, and from a client's certificate to its principal.

The files behind it are looked at every second, by their inode, size and time of change, and so are the configs. What
has changed is read again: new connections get the new certificate, those that are open keep theirs. If the new one
cannot be used the old one stays, and the log says why. Of the same configs comes the context with which brokers connect
to the listeners of other brokers (`tls_client`).
"""

from __future__ import annotations

import logging
import os
import ssl

from penstock.broker.config import ConfigError, ListenerConfig
from penstock.broker.tls_ciphers import restrict
from penstock.broker.tls_stores import read_keystore, read_truststore
from penstock.memory_file import memory_file
from penstock.security.distinguished_names import subject_name
from penstock.security.principal_mapping import PrincipalMapper
from penstock.security.principals import ANONYMOUS, Principal, user
from penstock.security.protocols import SecurityProtocol

log = logging.getLogger("penstock.broker")

_CLIENT_AUTH = "ssl.client.auth"
_VERIFICATION = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
_CONFIGS = (
    *_LOCATIONS,
    _CLIENT_AUTH,
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.truststore.type",
)


class TlsServer:
    def __init__(self, config: ListenerConfig, listener_name: str, protocol: SecurityProtocol) -> None:
        """Raises ConfigError with what to do."""
        self._config = config
        self._listener_name = listener_name
        self._protocol = protocol
        self._seen = look(self._config)
        self.context, self._mapper = self._load()

    def check(self, config: ListenerConfig) -> None:
        """Raise ConfigError if these configs, where they differ from the present ones, could not be served with."""
        if any(config.text(name) != self._config.text(name) for name in _CONFIGS):
            TlsServer(config, self._listener_name, self._protocol)

    def refresh(self) -> None:
        """Read keys, certificates and configs again if they have changed."""
        seen = look(self._config)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context, self._mapper = self._load()
        except ConfigError as error:
            log.error("listener %s keeps its certificate, the new one cannot be used: %s", self._listener_name, error)
        else:
            log.warning("listener %s has read its certificate again", self._listener_name)

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Who a client is by its certificate in DER. Raises NoRuleApplies or MalformedCertificate (a ValueError)."""
        if certificate is None or self._protocol.has_sasl:
            return ANONYMOUS
        return user(self._mapper.name_of(subject_name(certificate)))

    def _load(self) -> tuple[ssl.SSLContext, PrincipalMapper]:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        restrict(context, config.items("ssl.enabled.protocols"), config.items("ssl.cipher.suites"))
        show_certificate(context, config)
        self._verify_clients(context)
        try:
            return context, PrincipalMapper(config.text("ssl.principal.mapping.rules"))
        except ValueError as error:
            raise ConfigError(f"Cannot accept ssl.principal.mapping.rules: {error}.") from None

    def _verify_clients(self, context: ssl.SSLContext) -> None:
        verification = _VERIFICATION[self._client_auth()]
        if verification is ssl.CERT_NONE:
            context.num_tickets = 1
            return
        # A session that is resumed skips the verification: without tickets each connection shows its certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        trusted = read_truststore(self._config)
        if not trusted:
            raise ConfigError(
                f"{_CLIENT_AUTH}={self._client_auth()} needs the certificates that clients' are signed with: set "
                "ssl.truststore.type=PEM and ssl.truststore.location."
            )
        trust(context, trusted)
        context.verify_mode = verification

    def _client_auth(self) -> str:
        """With SASL only the listener's own setting counts, as in Kafka (KIP-684): SASL says who the client is."""
        if self._protocol.has_sasl and self._config.name_of(_CLIENT_AUTH) == _CLIENT_AUTH:
            return "none"
        return self._config.text(_CLIENT_AUTH)


def look(config: ListenerConfig) -> tuple[object, ...]:
    """What a context is made of, as far as it can be seen without reading files."""
    files = []
    for name in _LOCATIONS:
        try:
            stat = os.stat(config.text(name)) if config.text(name) else None
        except OSError:
            stat = None
        files.append(stat and (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return (*(config.text(name) for name in _CONFIGS), *files)


def show_certificate(context: ssl.SSLContext, config: ListenerConfig) -> None:
    """Have a context show the certificate of the keystore. Raises ConfigError."""
    keystore = read_keystore(config)
    try:
        with memory_file(keystore.pem) as path:
            # A password that is not needed is not asked for; without one OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=lambda: keystore.password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            "The key and the certificate of ssl.keystore cannot be used together, or ssl.key.password is wrong: "
            f"{_reason(error)}."
        ) from None


def trust(context: ssl.SSLContext, trusted: bytes) -> None:
    """Have a context trust what is in a truststore. Raises ConfigError."""
    try:
        context.load_verify_locations(cadata=trusted.decode())
    except ssl.SSLError as error:
        raise ConfigError(f"The certificates of ssl.truststore cannot be read: {_reason(error)}.") from None
    # As in Java, whatever is in the truststore is trusted, also an intermediate or a certificate of a peer itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _reason(error: ssl.SSLError | ValueError) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()
