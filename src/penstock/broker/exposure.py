"""Whether a broker may be reached from other machines as it was started, and what its owner must know about it.

Nobody opens a broker to a network by accident. An address beyond this machine that was given without a protocol becomes
SASL_SSL where users and a certificate are there for it, and is refused where they are not. An address whose protocol is
written out (`PLAINTEXT://0.0.0.0:9092`) is what its owner wants, and is served with a warning if it lets in everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.listeners import Address, ListenError, is_loopback, parse_address, resolve_addresses
from penstock.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig

MONITORING = "MONITORING"
"""The name under which the monitoring endpoint may have TLS configs of its own: `listener.name.monitoring.ssl.…`"""
_NO_AUTHENTICATION = "everybody who can reach it can connect without a login"
_ENCRYPTION_ONLY = (
    "TLS without client certificates is encryption, not authentication: everybody who can reach it can connect "
    "(ssl.client.auth=required asks for certificates)"
)


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the addresses of a broker are served."""

    unnamed: SecurityProtocol
    """The protocol of addresses that were given without one."""
    warnings: tuple[str, ...] = ()


def decide(
    listen: Sequence[str],
    config: BrokerConfig,
    *,
    unnamed: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    data: str,
    has_users: bool,
    insecure: bool,
) -> Exposure:
    """Raises ListenError, with the ways out, for an address that nobody may have meant to open to a network."""
    public = [text for text in listen if "://" not in text and is_public(text)]
    if public and unnamed is SecurityProtocol.PLAINTEXT and not insecure:
        if not has_users or not has_certificate(config, SecurityProtocol.SASL_SSL.value):
            raise ListenError(_refusal(public[0], data, has_users, config))
        unnamed = SecurityProtocol.SASL_SSL
    addresses = resolve_addresses(listen, config, unnamed.value)
    warnings = [warning for address in addresses if (warning := _warning(address, config))]
    return Exposure(unnamed, tuple(warnings))


def is_public(listen: str) -> bool:
    """Whether an address can be reached from other machines."""
    return not is_loopback(parse_address(listen).host)


def check_monitoring(listen: str, config: BrokerConfig, *, data: str, has_users: bool) -> None:
    """Raises ListenError, with what to do, if the monitoring endpoint beyond this machine would let everybody look."""
    missing = []
    if not has_users:
        missing.append(f"a user who may look:       penstock user add NAME --data {data}")
    if not has_certificate(config, MONITORING):
        missing.append("a certificate:             penstock tls create, then ssl.keystore.location (or --secure)")
    if missing:
        lines = [f"penstock.metrics.listen={listen} can be reached from other machines, so it needs a login over TLS."]
        raise ListenError("\n  Add ".join([*lines, *missing]) + "\n  Or let it be reached from here only: 127.0.0.1")


def has_certificate(config: BrokerConfig, listener_name: str) -> bool:
    """Whether a listener of that name could serve TLS."""
    configs = config.for_listener(listener_name)
    return any(configs.is_set(f"ssl.keystore.{what}") for what in ("location", "certificate.chain"))


def _warning(address: Address, config: BrokerConfig) -> str:
    if is_loopback(address.host):
        return ""
    match address.protocol:
        case SecurityProtocol.PLAINTEXT:
            return f"{address} is served in plaintext, and {_NO_AUTHENTICATION}"
        case SecurityProtocol.SSL if config.for_listener(address.name).text("ssl.client.auth") != "required":
            return f"{address}: {_ENCRYPTION_ONLY}"
        case SecurityProtocol.SASL_PLAINTEXT:
            return f"{address} is not encrypted: whoever can read the network's traffic reads the records"
    return ""


def _refusal(text: str, data: str, has_users: bool, config: BrokerConfig) -> str:
    ways = [
        ("Set up TLS, a user and access control:", f"penstock serve --secure --listen {text} --data {data}"),
    ]
    if not has_users:
        why = "there are no users who could log in, so everybody who can reach it could read, write and delete"
        ways.append(("Add a user, and name a certificate:", f"penstock user add NAME --data {data}"))
        if has_certificate(config, SecurityProtocol.SASL_SSL.value):
            why += "; TLS without client certificates is encryption, not authentication"
    else:
        why = "there are users, and no certificate to encrypt their logins and records with (ssl.keystore.location)"
        ways.append(("Create a certificate:", "penstock tls create"))
        ways.append(("In a network that you trust:", f"penstock serve --listen SASL_PLAINTEXT://{text} --data {data}"))
    ways.append(("Serve everybody, on purpose:", f"penstock serve --listen PLAINTEXT://{text}  (or --insecure)"))
    lines = [f"{text} can be reached from other machines, and {why}."]
    lines += [f"  {what:<39} {command}" for what, command in ways]
    return "\n".join(lines)
