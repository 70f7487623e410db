"""The `penstock` command that does what a page does, with what it needs to reach the same cluster as the same user."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from penstock.console.session import Session

_DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_DEFAULT_MECHANISM = "SCRAM-SHA-512"


def command(session: Session, *words: object) -> str:
    """A command line for a shell."""
    return shlex.join(["penstock", *(str(word) for word in words), *connection_options(session)])


def connection_options(session: Session) -> list[str]:
    """The options by which a command reaches the session's cluster as the session's user; never a password."""
    settings, options = session.settings, []
    if session.bootstrap != _DEFAULT_BOOTSTRAP:
        options += ["--bootstrap", session.bootstrap]
    if session.client_config:
        options += ["--client-config", session.client_config]
    if session.user:
        options += ["--user", session.user]
    return options if session.client_config else options + _security(settings, has_user=session.user is not None)


def _security(settings: Mapping[str, object], *, has_user: bool) -> list[str]:
    """What differs from what the command assumes: with a user SASL_SSL, with an authority TLS."""
    options = []
    authority = settings.get("ssl_cafile")
    assumed = ("SASL_SSL" if has_user else "SSL") if authority or has_user else "PLAINTEXT"
    protocol = str(settings.get("security_protocol") or assumed).upper()
    mechanism = str(settings.get("sasl_mechanism") or _DEFAULT_MECHANISM).upper()
    if protocol != assumed:
        options += ["--security-protocol", protocol]
    if protocol.startswith("SASL_") and mechanism != _DEFAULT_MECHANISM:
        options += ["--sasl-mechanism", mechanism]
    if authority:
        options += ["--ca-file", str(authority)]
    return options
