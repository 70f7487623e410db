"""Everything that a stranger can send before authentication: no handler breaks, nobody gets in, others are served."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.security import jaas, oauthbearer, plain
from penstock.security.failures import AuthenticationFailed
from penstock.security.scram import MECHANISMS, Credential, ScramClient, ScramServer
from penstock.wire import messages as m
from penstock.wire.frames import request_frame
from tests.broker.sasl_client import SaslClient, sasl_broker
from tests.fuzz.fuzzing import DEFAULT_SECONDS, LONG_SECONDS, fuzz, mutated

_FINAL = b"c=biws,r=clientserver,p=" + b"A" * 43 + b"="
_TOKENS = [
    b"",
    b"\x01",
    b"\0alice\0secre",
    b"n,,n=alice,r=client",
    b"n,a=alice,n=al=2Cice,r=client,ext=1",
    _FINAL,
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.e30.\x01key=value\x01\x01",
    b"\xff" * 40,
]
_JAAS = "a.b.PlainLoginModule required username=\"x\" user_a='\\101b' /* c */ p=q; // end"


def _frames(source: random.Random) -> Iterator[bytes]:
    """A conversation that nearly makes sense."""
    for number in range(source.randrange(1, 6)):
        message, version = source.choice(
            [
                (m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), source.randrange(0, 5)),
                (m.SaslHandshakeRequest(mechanism=source.choice([*MECHANISMS, "PLAIN", "", "x" * 300])), 1),
                (m.SaslHandshakeRequest(mechanism=source.choice([*MECHANISMS, "PLAIN"])), 0),
                (m.SaslAuthenticateRequest(auth_bytes=source.choice(_TOKENS)), source.randrange(0, 3)),
                (m.MetadataRequest(topics=None), 12),
            ]
        )
        frame = b"".join(request_frame(message, version, number, "fuzz"))
        if source.random() < 0.2:
            token = source.choice(_TOKENS)
            frame = len(token).to_bytes(4, "big") + token
        if source.random() < 0.4:
            frame = frame[:4] + bytes(mutated(source, frame[4:]))
            if source.random() < 0.8:
                frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
        yield frame


class Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


def fuzz_a_broker(seconds: float, data: Path) -> None:
    errors = Errors()
    logging.getLogger("penstock").addHandler(errors)
    configs = {"connection.failed.authentication.delay.ms": 0, "penstock.authentication.timeout.ms": 5000}
    try:
        with sasl_broker(data, configs) as broker:
            connections = broker._running().parts.dispatcher.connections

            def one_conversation(source: random.Random) -> None:
                with SaslClient(broker.port) as client:
                    try:
                        for frame in _frames(source):
                            client.send(frame)
                        client.drain(0.01)
                    except ConnectionError:
                        pass
                    for connection in list(connections):
                        assert str(connection.principal) == "User:ANONYMOUS"
                assert errors.seen == []

            fuzz(seconds, one_conversation)
            with SaslClient(broker.port) as client:
                client.log_in()
                assert client.is_served()
    finally:
        logging.getLogger("penstock").removeHandler(errors)
    assert errors.seen == []


def one_message(source: random.Random) -> None:
    """Messages of the mechanisms, changed in places: read, or refused in the one way that callers expect."""
    credential = Credential(b"salt", 4096, bytes(32), bytes(32))
    server = ScramServer(MECHANISMS["SCRAM-SHA-256"], "server", lambda user: credential)
    client = ScramClient(MECHANISMS["SCRAM-SHA-256"], "alice", "secret", "client")
    token = bytes(mutated(source, source.choice(_TOKENS)))
    challenge = bytes(mutated(source, b"r=clientserver,s=c2FsdA==,i=4096"))
    for read, data in (
        (plain.parse, token),
        (oauthbearer.parse_client_first, token),
        (server.receive, token),
        (server.receive, bytes(mutated(source, _FINAL))),
        (client.receive, challenge),
        (client.receive, bytes(mutated(source, b"v=" + b"A" * 43 + b"="))),
    ):
        try:
            read(data)
        except AuthenticationFailed:
            pass
    assert not server.complete
    assert not client.complete
    try:
        oauthbearer.verify_signature(token.decode(errors="replace"), oauthbearer.PublicKeys())
        raise AssertionError("a token without a key was taken")
    except AuthenticationFailed:
        pass
    try:
        jaas.parse_jaas(mutated(source, _JAAS.encode()).decode(errors="replace"))
    except jaas.JaasError:
        pass


def test_no_message_breaks_a_mechanism() -> None:
    fuzz(DEFAULT_SECONDS, one_message)


def test_nobody_gets_in_and_nothing_breaks(tmp_path: Path) -> None:
    fuzz_a_broker(DEFAULT_SECONDS * 2, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS * 2 + 120)
def test_nobody_gets_in_and_nothing_breaks_for_long(tmp_path: Path) -> None:
    fuzz(LONG_SECONDS, one_message)
    fuzz_a_broker(LONG_SECONDS, tmp_path)
