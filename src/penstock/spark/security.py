"""TLS and SASL on Spark: the client's settings, as options of the source and the sink.

Options are Kafka's settings behind `kafka.` (`kafka.security.protocol`, `kafka.sasl.jaas.config`, `kafka.ssl.…`) and
mean what they mean to `penstock.client`. Spark carries options as text, so a token provider is named, as
`module:function`, and has to be importable where the tasks run. Values never enter a plan, an offset or a checkpoint.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from penstock.client.authentication import Authenticator
from penstock.client.blocking import BlockingConnection
from penstock.client.config import ClientConfig, load
from penstock.client.errors import UsageError
from penstock.client.security import SecurityConfig
from penstock.client.tls import context_of

NO_SECURITY = SecurityConfig()
_PREFIX = "kafka."
_BEGINNINGS = tuple(f"{_PREFIX}{about}" for about in ("security.", "sasl.", "ssl.", "enable.ssl."))


def is_security_option(name: str) -> bool:
    return name.lower().startswith(_BEGINNINGS)


def security_in(options: Mapping[str, str]) -> SecurityConfig:
    """What the options say about security; raises UsageError for what is unknown or does not fit together."""
    return security_of({name[len(_PREFIX) :]: value for name, value in options.items() if is_security_option(name)})


def security_of(settings: Mapping[str, object] | None) -> SecurityConfig:
    """The same from settings by the client's names, dotted or not."""
    given = load(ClientConfig, settings, {}).given()
    Authenticator.of(SecurityConfig(**given))  # type: ignore[arg-type]  # what is wrong is told before a task starts
    return SecurityConfig(**given)  # type: ignore[arg-type]


def as_options(security: SecurityConfig) -> dict[str, str]:
    """The options that say the same."""
    made: dict[str, str] = {}
    for name, value in security.given().items():
        if not isinstance(value, (str, bool)):
            raise UsageError(f"{name} cannot be passed as an option of Spark: name it as module:function")
        made[f"{_PREFIX}{name.replace('_', '.')}"] = str(value).lower() if isinstance(value, bool) else value
    return made


def open_connection(host: str, port: int, client_id: str, security: SecurityConfig) -> BlockingConnection:
    """A blocking connection, for a task."""
    return BlockingConnection.open(
        host, port, client_id=client_id, ssl_context=context_of(security), authenticator=_authenticator(security)
    )


@functools.lru_cache(maxsize=16)
def _authenticator(security: SecurityConfig) -> Authenticator | None:
    """One for all tasks of a process, which share its token."""
    return Authenticator.of(security)
