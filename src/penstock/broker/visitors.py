"""Visitors of the monitoring endpoint from other machines: who they are, and what they may see.

They log in with HTTP's Basic scheme, over TLS, as users of the broker; their passwords are checked where those of Kafka
clients are, few at a time. Whoever fails is answered late, as Kafka clients are.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.security.failures import AuthenticationFailed
from penstock.security.principals import Principal, user
from penstock.wire.acls import AclOperation, AclResource

if TYPE_CHECKING:
    from penstock.broker.gate import Gate

CheckPassword = Callable[[str, str, Callable[[bool], None]], None]
"""Takes a user, a password and what to call with whether they fit. Raises AuthenticationFailed if it is too busy."""
_SCHEME = "basic"


class LoggedInVisitors:
    def __init__(
        self,
        context: ssl.SSLContext,
        check_password: CheckPassword,
        gate: Gate,
        *,
        failure_delay_ms: Callable[[], int],
        on_failure: Callable[[str, str], None],
    ) -> None:
        """`on_failure` hears of the user and the host of a login that fails."""
        self.context = context
        self._check_password = check_password
        self._gate = gate
        self._failure_delay_ms = failure_delay_ms
        self._on_failure = on_failure

    async def authenticate(self, authorization: str, host: str) -> Principal | None:
        login = _basic(authorization)
        if login is None:
            return None
        name, password = login
        if await self._fits(name, password):
            return user(name)
        self._on_failure(name, host)
        await asyncio.sleep(self._failure_delay_ms() / 1000)
        return None

    def may_describe(self, principal: Principal, host: str, resource: AclResource, name: str) -> bool:
        return self._gate.allows_visitor(principal, host, AclOperation.DESCRIBE, resource, name)

    async def _fits(self, name: str, password: str) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            self._check_password(name, password, lambda fits: None if answer.done() else answer.set_result(fits))
        except AuthenticationFailed:
            return False
        return await answer


def _basic(authorization: str) -> tuple[str, str] | None:
    """The user and the password of an Authorization header (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if scheme.lower() == _SCHEME and colon and name and password else None
