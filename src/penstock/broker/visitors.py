"""Visitors of the monitoring endpoint from other machines: who they are, and what they may see.

They log in with HTTP's Basic scheme, over TLS, as users of the broker; their passwords are checked where those of Kafka
clients are, few at a time. Whoever fails is answered late, as Kafka clients are.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.exposure import MONITORING
from penstock.broker.tls import TlsServer
from penstock.security.failures import AuthenticationFailed
from penstock.security.principals import Principal, user
from penstock.security.protocols import SecurityProtocol
from penstock.wire.acls import AclOperation, AclResource

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.credentials import Users
    from penstock.broker.gate import Gate
    from penstock.broker.password_checks import PasswordChecks
    from penstock.broker.world import World

log = logging.getLogger("penstock.broker")

_SCHEME = "basic"


class LoggedInVisitors:
    def __init__(
        self,
        context: ssl.SSLContext,
        users: Users,
        password_checks: PasswordChecks,
        gate: Gate,
        config: BrokerConfig,
        world: World,
    ) -> None:
        self.context = context
        self._users = users
        self._password_checks = password_checks
        self._gate = gate
        self._config = config
        self._failures = BoundedLog(log, world.monotonic, "logins to the monitoring endpoint failed")

    async def authenticate(self, authorization: str, host: str) -> Principal | None:
        login = _basic(authorization)
        if login is None:
            return None
        name, password = login
        if await self._fits(name, password):
            return user(name)
        self._failures.warning("login of %r to the monitoring endpoint from %s failed", name, host)
        await asyncio.sleep(self._config.connection_failed_authentication_delay_ms / 1000)
        return None

    def may_describe(self, principal: Principal, host: str, resource: AclResource, name: str) -> bool:
        return self._gate.allows_visitor(principal, host, AclOperation.DESCRIBE, resource, name)

    async def _fits(self, name: str, password: str) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def checked(fits: bool) -> None:
            if not answer.done():  # a visitor who has gone does not wait
                answer.set_result(fits)

        try:
            self._password_checks.check(self._users.look_up_any(name), password, checked)
        except AuthenticationFailed:
            return False
        return await answer


def open_context(config: BrokerConfig) -> ssl.SSLContext:
    """The TLS of the endpoint; each handshake gets the certificate as it is then. Raises ConfigError."""
    tls = TlsServer(config.for_listener(MONITORING), MONITORING, SecurityProtocol.SASL_SSL)
    context = tls.context

    def renew(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        tls.refresh()
        connection.context = tls.context

    context.sni_callback = renew  # called for clients that name no server too
    return context


def _basic(authorization: str) -> tuple[str, str] | None:
    """The user and the password of an Authorization header (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if scheme.lower() == _SCHEME and colon and name and password else None
