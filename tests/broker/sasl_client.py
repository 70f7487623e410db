"""A raw client that authenticates, step by step or at once, and brokers with users for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.broker import foundation
from penstock.broker.users import set_password
from penstock.security.plain import PlainClient
from penstock.security.scram import MECHANISMS, ScramClient, ScramMechanism
from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.raw import RawClient

USERS = {"alice": "secret", "bob": "hunter2"}


def sasl_broker(data: Path, configs: Mapping[str, object] | None = None) -> Broker:
    """A broker whose one listener is SASL_PLAINTEXT, with alice and bob for users."""
    with foundation.open_catalog(data) as catalog:
        for name, password in USERS.items():
            set_password(catalog, name, password)
    return Broker(
        {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "connection.failed.authentication.delay.ms": 10,
            **(configs or {}),
        },
        data=data,
    )


class SaslClient(RawClient):
    def handshake(self, mechanism: str, version: int = 1) -> m.SaslHandshakeResponse:
        return self.ask(m.SaslHandshakeRequest(mechanism=mechanism), m.SaslHandshakeResponse, version)

    def token(self, token: bytes, version: int = 2) -> m.SaslAuthenticateResponse:
        return self.ask(m.SaslAuthenticateRequest(auth_bytes=token), m.SaslAuthenticateResponse, version)

    def bare(self, token: bytes) -> bytes | None:
        """Send a message of the mechanism without Kafka's headers; the answer, or None when the broker closed."""
        self.send_frame(token)
        size = self._exactly(4)
        return None if size is None else self._exactly(int.from_bytes(size, "big"))

    def _exactly(self, count: int) -> bytes | None:
        received = b""
        try:
            while len(received) < count:
                piece = self._socket.recv(count - len(received))
                if not piece:
                    return None
                received += piece
        except ConnectionError:
            return None
        return received

    def log_in(
        self, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret", version: int = 2
    ) -> m.SaslAuthenticateResponse:
        """Go through a whole exchange; the last answer, which may be a refusal."""
        assert self.handshake(mechanism).error_code == 0
        exchange = (
            PlainClient(user, password)
            if mechanism == "PLAIN"
            else ScramClient(MECHANISMS[mechanism], user, password, "clientnonce")
        )
        message: bytes | None = exchange.first()
        while True:
            assert message is not None
            answer = self.token(message, version)
            if answer.error_code:
                return answer
            message = exchange.receive(bytes(answer.auth_bytes))
            if exchange.complete:
                return answer

    def is_served(self) -> bool:
        """Whether the broker handles a request that only authenticated clients may send."""
        try:
            return len(self.ask(m.MetadataRequest(topics=[]), m.MetadataResponse, 12).brokers) == 1
        except ConnectionError:
            return False

    def remove_user(self, name: str) -> None:
        """As an administrator, delete all credentials of a user."""
        for mechanism in ScramMechanism:
            request = m.AlterUserScramCredentialsRequest
            deletion = request.ScramCredentialDeletion(name=name, mechanism=mechanism)
            answer = self.ask(request(deletions=[deletion]), m.AlterUserScramCredentialsResponse, 0)
            assert answer.results[0].error_code == 0
