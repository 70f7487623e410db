"""Crowds and oddities at the door: strangers cost little, get nothing, and do not keep out those who belong.

An honest user works throughout. The crowds come in waves, so that the test needs fewer file descriptors than they have
members; with the marker `long` there are 10,000 of each kind.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.certificates import Authority, broker_settings
from bench.peers import HOST, PenstockPeer
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from penstock.wire.frames import SIZE, request_frame
from tests.broker.raw import RawClient
from tests.clients.tokens import AUDIENCE, ISSUER, TokenIssuer, write_jwks

pytestmark = pytest.mark.timeout(300)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
WAIT_S = 30
WAVE = 1000
GROWTH_MB = 64
"""What a crowd may cost beyond what the broker has in use anyway. A thousand strangers are let stay at a time."""
TOKEN_LIMIT = 524_288
SECONDS_TO_LOG_IN = 2


class Fortress:
    """A broker with TLS and users, a stranger's means to reach it, and an honest user."""

    def __init__(self, peer: PenstockPeer, authority: Authority, issuer: TokenIssuer) -> None:
        self.peer = peer
        self.issuer = issuer
        self.tls = authority.client_context()
        self._honest: dict[str, Any] = {
            "bootstrap.servers": peer.address("SASL_SSL"),
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(authority.certificate),
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "honest",
            "sasl.password": "honest-secret",
        }
        admin = AdminClient(self._honest)
        admin.create_topics([NewTopic("work", 1, 1)])["work"].result(WAIT_S)

    def port(self, listener: str) -> int:
        return int(self.peer.address(listener).rpartition(":")[2])

    def honest_user_gets_in(self) -> bool:
        """Whether a new connection, over TLS and with a password, gets a record delivered."""
        failed: list[object] = []
        producer = confluent_kafka.Producer({**self._honest, "linger.ms": 0, "log_level": 0})
        producer.produce("work", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        return producer.flush(WAIT_S) == 0 and not failed


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    folder = tmp_path_factory.mktemp("fortress")
    authority, issuer = Authority(folder), TokenIssuer()
    jwks = write_jwks(folder / "jwks.json", issuer)
    users = f'{PLAIN} required user_honest="honest-secret";'
    settings = {
        **broker_settings(authority, authority.issue("broker", HOST)),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "connection.failed.authentication.delay.ms": "0",
        "penstock.authentication.timeout.ms": str(SECONDS_TO_LOG_IN * 1000),
        "penstock.unauthenticated.bytes.max": str(16 << 20),
    }
    listeners = {"SASL_SSL": "SASL_SSL", "SSL": "SSL"}
    with PenstockPeer(settings, protocol="SASL_PLAINTEXT", more_listeners=listeners) as peer:
        yield Fortress(peer, authority, issuer)


@pytest.fixture(scope="module", autouse=True)
def file_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, WAVE + 1000), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def raw(fortress: Fortress) -> RawClient:
    return RawClient(fortress.port("SASL_PLAINTEXT"))


# Crowds

Stranger = Callable[[Fortress], socket.socket]


def connected(fortress: Fortress, listener: str) -> socket.socket:
    return socket.create_connection((HOST, fortress.port(listener)), timeout=WAIT_S)


def says_nothing(fortress: Fortress) -> socket.socket:
    return connected(fortress, "SASL_PLAINTEXT")


def stops_within_a_client_hello(fortress: Fortress) -> socket.socket:
    stranger = connected(fortress, "SSL")
    stranger.sendall(client_hello(fortress)[:40])
    return stranger


def stops_after_the_server_hello(fortress: Fortress) -> socket.socket:
    stranger = connected(fortress, "SASL_SSL")
    stranger.sendall(client_hello(fortress))
    return stranger


def stops_within_sasl(fortress: Fortress) -> socket.socket:
    stranger = connected(fortress, "SASL_PLAINTEXT")
    handshake = m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    first = m.SaslAuthenticateRequest(auth_bytes=b"n,,n=somebody,r=nonce")
    stranger.sendall(b"".join((*request_frame(handshake, 1, 1, "x"), *request_frame(first, 2, 2, "x"))))
    return stranger


def announces_much(fortress: Fortress) -> socket.socket:
    """A token of half a megabyte, the most that is allowed, of which only the last byte is missing."""
    stranger = connected(fortress, "SASL_PLAINTEXT")
    handshake = m.SaslHandshakeRequest(mechanism="PLAIN")
    token = m.SaslAuthenticateRequest(auth_bytes=b"x" * (TOKEN_LIMIT - 100))
    stranger.sendall(b"".join(request_frame(handshake, 1, 1, "x")))
    stranger.setblocking(False)
    with contextlib.suppress(OSError):
        stranger.send(b"".join(request_frame(token, 2, 2, "x"))[:-1])
    return stranger


def client_hello(fortress: Fortress) -> bytes:
    outgoing = ssl.MemoryBIO()
    session = fortress.tls.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


STRANGERS = [says_nothing, stops_within_a_client_hello, stops_after_the_server_hello, stops_within_sasl, announces_much]


@pytest.mark.parametrize("count", [WAVE // 2, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda stranger: str(stranger.__name__))
def test_a_crowd_that_never_logs_in_keeps_nobody_out_and_costs_little(
    fortress: Fortress, stranger: Stranger, count: int
) -> None:
    assert fortress.honest_user_gets_in()
    before_mb = fortress.peer.rss_mb()
    crowd: list[socket.socket] = []
    try:
        for number in range(count):
            with contextlib.suppress(OSError):  # the broker may have shown it the door already
                crowd.append(stranger(fortress))
            if len(crowd) > WAVE:
                crowd.pop(0).close()
            if number % (WAVE // 2) == WAVE // 2 - 1:
                assert fortress.honest_user_gets_in()
        assert fortress.peer.rss_mb() - before_mb < GROWTH_MB
    finally:
        for each in crowd:
            each.close()
    assert fortress.honest_user_gets_in()


def test_strangers_who_dawdle_are_shown_the_door(fortress: Fortress) -> None:
    """However little they say at a time: it is the whole of the log-in that has a limit."""
    hello = client_hello(fortress)
    dawdlers = [connected(fortress, "SSL") for _ in range(20)]
    silent = [says_nothing(fortress) for _ in range(20)]
    try:
        gone = 0
        for byte in hello[: 20 * SECONDS_TO_LOG_IN * 10]:
            gone = sum(not tells(dawdler, byte) for dawdler in dawdlers)
            if gone == len(dawdlers):
                break
            time.sleep(0.1)  # the pace of the dawdlers, not a wait for something
        assert gone == len(dawdlers)
        assert all(stranger.recv(1) == b"" for stranger in silent)
        assert fortress.honest_user_gets_in()
    finally:
        for each in (*dawdlers, *silent):
            each.close()


def tells(stranger: socket.socket, byte: int) -> bool:
    """Send one byte; whether the broker still listens."""
    try:
        stranger.sendall(bytes([byte]))
        stranger.setblocking(False)
        return stranger.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            stranger.settimeout(WAIT_S)


# Renegotiation

RENEGOTIATIONS = 50


def test_nobody_renegotiates(fortress: Fortress) -> None:
    """A handshake costs the broker more than the client: TLS 1.2 would let one connection ask for it for ever."""
    address = f"{HOST}:{fortress.port('SSL')}"
    command = ["openssl", "s_client", "-connect", address, "-tls1_2", "-legacy_renegotiation"]
    done = subprocess.run(command, input="R\n" * RENEGOTIATIONS, capture_output=True, text=True, timeout=WAIT_S)
    said = done.stdout + done.stderr
    assert "Cipher    : " in said, said  # the first handshake, which succeeds
    assert said.count("RENEGOTIATING") >= 1
    assert "no renegotiation" in said or "handshake failure" in said or "unexpected message" in said, said
    assert fortress.honest_user_gets_in()


# What does not belong before, within and after the log-in

Before = tuple[m.Message, int]
TOO_EARLY: list[Before] = [
    (m.MetadataRequest(topics=None), 9),
    (m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]), 9),
    (m.FetchRequest(topics=[]), 12),
    (m.CreateTopicsRequest(topics=[]), 7),
    (m.DescribeAclsRequest(), 3),
    (m.SaslAuthenticateRequest(auth_bytes=b"\0honest\0honest-secret"), 2),
]


@pytest.mark.parametrize("early", TOO_EARLY, ids=lambda early: type(early[0]).__name__)
def test_a_request_before_the_log_in_ends_the_connection_without_an_answer_of_substance(
    fortress: Fortress, early: Before
) -> None:
    request, version = early
    with raw(fortress) as stranger:
        stranger.post(request, version)
        answer = stranger.read_frame()
        if answer is not None:
            assert len(answer) < 64
            assert stranger.is_closed_by_broker()


def test_a_request_amid_the_log_in_ends_the_connection(fortress: Fortress) -> None:
    with raw(fortress) as stranger:
        handshake(stranger, "PLAIN")
        stranger.post(m.MetadataRequest(topics=None), 9)
        while (answer := stranger.read_frame()) is not None:
            assert len(answer) < 64
    assert fortress.honest_user_gets_in()


@pytest.mark.parametrize("size", [TOKEN_LIMIT + 1, 100 << 20, (1 << 31) - 1])
def test_an_oversized_frame_before_the_log_in_ends_the_connection_unread(fortress: Fortress, size: int) -> None:
    before_mb = fortress.peer.rss_mb()
    with raw(fortress) as stranger:
        handshake(stranger, "PLAIN")
        with contextlib.suppress(OSError):
            stranger.send(SIZE.pack(size) + b"\0" * 1000)
        assert stranger.is_closed_by_broker()
    assert fortress.peer.rss_mb() - before_mb < GROWTH_MB


def test_a_token_within_the_limit_that_says_nothing_is_refused(fortress: Fortress) -> None:
    with raw(fortress) as stranger:
        handshake(stranger, "PLAIN")
        answer = authenticate(stranger, b"x" * (TOKEN_LIMIT - 1000))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert stranger.is_closed_by_broker()


def handshake(client: RawClient, mechanism: str) -> None:
    request = m.SaslHandshakeRequest(mechanism=mechanism)
    assert client.ask(request, m.SaslHandshakeResponse, 1).error_code == 0


def authenticate(client: RawClient, token: bytes) -> m.SaslAuthenticateResponse:
    return client.ask(m.SaslAuthenticateRequest(auth_bytes=token), m.SaslAuthenticateResponse, 2)


def log_in(client: RawClient, user: str = "honest", password: str = "honest-secret") -> m.SaslAuthenticateResponse:
    handshake(client, "PLAIN")
    return authenticate(client, f"\0{user}\0{password}".encode())


def is_served(client: RawClient) -> bool:
    return len(client.ask(m.MetadataRequest(topics=[]), m.MetadataResponse, 9).brokers) == 1


def test_a_token_after_the_log_in_is_refused_and_does_not_make_somebody_else(fortress: Fortress) -> None:
    with raw(fortress) as client:
        assert log_in(client).error_code == 0
        for _ in range(3):
            assert authenticate(client, b"\0admin\0admin").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_served(client)


def work_until_thrown_out(client: RawClient) -> None:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        is_served(client)


def test_a_session_ends_with_its_token(fortress: Fortress) -> None:
    with raw(fortress) as client:
        handshake(client, "OAUTHBEARER")
        answer = authenticate(
            client, b"n,,\x01auth=Bearer " + fortress.issuer.token("bearer", 2).encode() + b"\x01\x01"
        )
        assert answer.error_code == 0
        assert 0 < answer.session_lifetime_ms <= 2000
        assert is_served(client)
        with pytest.raises(ConnectionError):
            work_until_thrown_out(client)


# Timing


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_time_of_a_refusal_does_not_tell_whether_a_user_exists(fortress: Fortress, mechanism: str) -> None:
    """In turns, so that whatever else the machine does falls on both; generous, because it does much."""
    taken: dict[str, list[float]] = {"honest": [], "nobody": []}
    for _ in range(150):
        for user, times in taken.items():
            with raw(fortress) as client:
                handshake(client, mechanism)
                token = f"\0{user}\0wrong" if mechanism == "PLAIN" else f"n,,n={user},r=abcdefgh"
                began = time.perf_counter()
                authenticate(client, token.encode())
                times.append(time.perf_counter() - began)
    exists, unknown = (statistics.median(times) for times in taken.values())
    assert 0.6 < exists / unknown < 1.67, (exists, unknown)
