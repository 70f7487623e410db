"""The security settings of a client: TLS, and its identity (SASL).

They are the same for all clients, for Spark's options and for the `penstock` command, under Kafka's names; the names of
librdkafka and kafka-python mean the same. Settings that do not fit together are refused rather than partly obeyed: with
a password that no mechanism sends, or an authority that nothing is checked against, a connection would be less safe
than its owner believes.

Secrets appear in no `repr` and in no error.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

from penstock.client.errors import UsageError

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class Token(NamedTuple):
    """What a token provider returns: the token, when it expires (seconds since 1970), and SASL extensions (KIP-342)."""

    value: str
    expires_at: float
    extensions: Mapping[str, str] = {}


Provided = Token | tuple[str, float] | tuple[str, float, Mapping[str, str]]
TokenProvider = Callable[[], Provided | Awaitable[Provided]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """How connections are encrypted, and how they authenticate."""

    security_protocol: str = ""
    """`plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`; if empty, TLS if a certificate is named, else plaintext."""
    ssl_cafile: str = ""
    """PEM file of the authorities that may have signed the brokers' certificates; the system's if empty."""
    ssl_certfile: str = ""
    """PEM file with this client's certificate, for brokers that require one."""
    ssl_keyfile: str = ""
    """PEM file with its private key, if that is not in `ssl_certfile`."""
    ssl_password: str = field(default="", repr=False)
    """Password of the private key."""
    ssl_check_hostname: bool = True
    """Whether a broker's certificate must be for the name that it was reached by."""
    ssl_truststore_type: str = ""
    """`PEM`. Java's stores are refused with the command that converts them."""
    ssl_truststore_certificates: str = ""
    """The authorities themselves, as PEM, in place of `ssl_cafile`."""
    ssl_keystore_type: str = ""
    """`PEM`."""
    ssl_keystore_certificate_chain: str = ""
    """This client's certificate itself, as PEM, in place of `ssl_certfile`."""
    ssl_keystore_key: str = field(default="", repr=False)
    """Its private key, as PEM; it is never written to a disk."""
    ssl_enabled_protocols: str = ""
    """`TLSv1.2`, `TLSv1.3` or both; empty is both."""
    ssl_context: ssl.SSLContext | None = None
    """An `ssl.SSLContext` of your own, instead of the above."""
    sasl_mechanism: str = ""
    """`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`."""
    sasl_username: str = ""
    """The user, for PLAIN and SCRAM."""
    sasl_password: str = field(default="", repr=False)
    """The user's password."""
    sasl_jaas_config: str = field(default="", repr=False)
    """User and password, or client id and secret, as Kafka's JAAS entry."""
    sasl_oauth_token_provider: TokenProvider | str | None = field(default=None, repr=False)
    """For OAUTHBEARER: a function that returns a `Token`, or its name as `module:function`."""
    sasl_oauthbearer_token_endpoint_url: str = field(default="", repr=False)
    """For OAUTHBEARER: where tokens are requested, with the client's id and secret."""
    sasl_oauthbearer_client_id: str = ""
    """The client's id there."""
    sasl_oauthbearer_client_secret: str = field(default="", repr=False)
    """The client's secret there."""
    sasl_oauthbearer_scope: str = ""
    """The scope to request for the token."""
    sasl_oauthbearer_extensions: str = field(default="", repr=False)
    """SASL extensions to send with the token: `name=value,name=value`."""

    @property
    def has_tls(self) -> bool:
        return self.security_protocol.endswith("ssl") or (not self.security_protocol and bool(self._given_for_tls()))

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("sasl_")

    def given(self) -> dict[str, object]:
        """The settings that are not as they are by default, by their names; for handing on, not for printing."""
        return {name: getattr(self, name) for name in self._given("")}

    def _given_for_tls(self) -> list[str]:
        return [name for name in self._given("ssl_") if name not in _OF_NO_CONSEQUENCE]

    def _given(self, prefix: str) -> list[str]:
        return [
            each.name
            for each in dataclasses.fields(SecurityConfig)
            if each.name.startswith(prefix) and getattr(self, each.name) != each.default
        ]


class SecuritySettings(TypedDict, total=False):
    """The keyword arguments of every client that are about security (the fields of `SecurityConfig`)."""

    security_protocol: Literal[
        "plaintext", "ssl", "sasl_plaintext", "sasl_ssl", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
    ]
    ssl_cafile: str
    ssl_certfile: str
    ssl_keyfile: str
    ssl_password: str
    ssl_check_hostname: bool
    ssl_truststore_type: str
    ssl_truststore_certificates: str
    ssl_keystore_type: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_key: str
    ssl_enabled_protocols: str
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    sasl_username: str
    sasl_password: str
    sasl_jaas_config: str
    sasl_oauth_token_provider: TokenProvider | str | None
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_id: str
    sasl_oauthbearer_client_secret: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_extensions: str


SECRETS = frozenset(each.name for each in dataclasses.fields(SecurityConfig) if not each.repr)

# Names of other clients that mean one of ours.
SYNONYMS = {
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauthbearer_client_credentials_client_id": "sasl_oauthbearer_client_id",
    "sasl_oauthbearer_client_credentials_client_secret": "sasl_oauthbearer_client_secret",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "ssl_ca_location": "ssl_cafile",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_key_pem": "ssl_keystore_key",
    "ssl_keystore_location": "ssl_certfile",
    "ssl_truststore_location": "ssl_cafile",
}

# Without TLS they promise nothing that would be missed.
_OF_NO_CONSEQUENCE = frozenset({"ssl_check_hostname", "ssl_keystore_type", "ssl_truststore_type"})
_PASSWORDS_OF_STORES = ("ssl_keystore_password", "ssl_truststore_password")


def translated(name: str, value: object) -> tuple[str, object] | None:
    """A setting of another client that is ours in other words: our name and value; None for one that is obeyed anyway.

    Anything else is returned as it is.
    """
    if name == "ssl_endpoint_identification_algorithm":
        return "ssl_check_hostname", _checks_host_name(value)
    if name == "enable_ssl_certificate_verification":
        if str(value).lower() != "true":
            raise UsageError(
                "enable.ssl.certificate.verification=false would encrypt without checking for whom; "
                "name the authority in ssl.ca.location instead"
            )
        return None
    if name in _PASSWORDS_OF_STORES:
        raise UsageError(
            f"{name} is for JKS and PKCS12 stores; these settings take PEM, where ssl_password opens an encrypted key"
        )
    if name == "sasl_login_callback_handler_class":
        if str(value).rpartition(".")[2] != "OAuthBearerLoginCallbackHandler":
            raise UsageError(
                "sasl.login.callback.handler.class names a Java class, which cannot run here; give a Python function "
                "in sasl_oauth_token_provider, or sasl.oauthbearer.token.endpoint.url"
            )
        return None
    if name == "sasl_oauthbearer_method":
        if str(value).lower() not in ("default", "oidc"):
            raise UsageError("sasl.oauthbearer.method must be oidc or default")
        return None
    return name, value


def _checks_host_name(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("https", "", "none"):
        raise UsageError(
            f"ssl.endpoint.identification.algorithm is {value!r}; it must be https, or empty for no check of host names"
        )
    return text == "https"


def mechanism_of(name: str, value: object) -> str:
    """A mechanism's name as it is sent."""
    text = str(value).strip().upper()
    if text in ("GSSAPI", "KERBEROS"):
        raise UsageError(f"{name} is {text}: Kerberos is not supported; there are {', '.join(MECHANISMS)}")
    if text not in MECHANISMS:
        raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(MECHANISMS)}")
    return text


def check_consistent(config: SecurityConfig) -> None:
    """Refuse settings of which some would silently have no effect."""
    protocol = config.security_protocol
    tls, sasl = config._given_for_tls(), config._given("sasl_")
    if protocol and not config.has_tls and tls:
        safe = "sasl_ssl" if config.has_sasl else "ssl"
        raise UsageError(
            f"{tls[0]} is given, but security_protocol={protocol!r} encrypts nothing; "
            f"set security_protocol={safe!r}, or leave {tls[0]} out"
        )
    if sasl and not config.has_sasl:
        raise UsageError(
            f"{sasl[0]} is given, but security_protocol={protocol or 'plaintext'!r} authenticates nobody; set "
            "security_protocol='sasl_ssl' (or 'sasl_plaintext', which encrypts nothing)"
        )
    _check_own_certificate(config)
    if config.has_sasl:
        _check_mechanism(config)


def _check_own_certificate(config: SecurityConfig) -> None:
    if config.ssl_cafile and config.ssl_truststore_certificates:
        raise UsageError("ssl_cafile and ssl_truststore_certificates are both given; use only one of them")
    if config.ssl_certfile and config.ssl_keystore_certificate_chain:
        raise UsageError("ssl_certfile and ssl_keystore_certificate_chain are both given; use only one of them")
    if bool(config.ssl_keystore_certificate_chain) != bool(config.ssl_keystore_key):
        raise UsageError("ssl_keystore_certificate_chain and ssl_keystore_key belong together; one of them is missing")
    if config.ssl_keyfile and not config.ssl_certfile:
        raise UsageError("ssl_keyfile is given without the certificate: name it in ssl_certfile")
    if config.ssl_password and not (config.ssl_certfile or config.ssl_keystore_key):
        raise UsageError("ssl_password is given without a key that it could open: name it in ssl_keyfile")
    if config.ssl_context is not None:
        others = [name for name in config._given("ssl_") if name != "ssl_context"]
        if others:
            raise UsageError(f"ssl_context is given, and {others[0]} too; set everything in the context")


def _check_mechanism(config: SecurityConfig) -> None:
    mechanism = config.sasl_mechanism
    if not mechanism:
        raise UsageError(
            f"security_protocol is {config.security_protocol!r}, but sasl_mechanism is missing; "
            f"it must be one of {', '.join(MECHANISMS)}"
        )
    if mechanism == "OAUTHBEARER":
        _check_token_source(config)
        return
    for name in config._given("sasl_oauth"):
        raise UsageError(f"{name} is given, but sasl_mechanism is {mechanism!r}; tokens are for OAUTHBEARER")
    if config.sasl_jaas_config:
        if config.sasl_username or config.sasl_password:
            raise UsageError("sasl_jaas_config and sasl_username or sasl_password are given; use only one of them")
    elif not config.sasl_username:
        raise UsageError(f"sasl_mechanism is {mechanism!r}, but there is no user; set sasl_username and sasl_password")
    elif not config.sasl_password:
        raise UsageError(f"sasl_username is given without sasl_password, which {mechanism} needs")


def _check_token_source(config: SecurityConfig) -> None:
    if config.sasl_username or config.sasl_password:
        raise UsageError("OAUTHBEARER takes tokens, no sasl_username or sasl_password; see sasl_oauth_token_provider")
    provider, url = config.sasl_oauth_token_provider is not None, bool(config.sasl_oauthbearer_token_endpoint_url)
    if provider and (url or config.sasl_jaas_config):
        raise UsageError("sasl_oauth_token_provider brings its own tokens; leave the other settings of OAUTHBEARER out")
    if not provider and not url:
        raise UsageError(
            "OAUTHBEARER needs tokens: set sasl_oauth_token_provider to a function, or "
            "sasl.oauthbearer.token.endpoint.url with the client's id and secret"
        )
    if config.sasl_jaas_config and (config.sasl_oauthbearer_client_id or config.sasl_oauthbearer_client_secret):
        raise UsageError(
            "the client's id and secret are given in sasl_jaas_config and in settings of their own; use only one"
        )
    if url and not config.sasl_jaas_config:
        for name in ("sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"):
            if not getattr(config, name):
                raise UsageError(f"sasl.oauthbearer.token.endpoint.url is given without {name.replace('_', '.')}")
