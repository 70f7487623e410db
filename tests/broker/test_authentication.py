"""What a client goes through before its requests are handled, over real sockets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.broker import authentication as authentication_module
from penstock.broker import password_checks
from penstock.broker.authentication import MAX_BYTES_BEFORE
from penstock.security import scram
from penstock.security.scram import MECHANISMS, ScramClient
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.raw import WAIT_SECONDS
from tests.broker.sasl_client import SaslClient, sasl_broker

ALL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with sasl_broker(tmp_path) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[SaslClient]:
    with SaslClient(broker.port) as connected:
        yield connected


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def metric(broker: Broker, name: str) -> float:
    text = broker._running().parts.metrics.text()
    return float(next(line for line in text.splitlines() if line.startswith((name + " ", name + "{"))).split()[-1])


class TestLogin:
    @pytest.mark.parametrize("mechanism", ALL)
    def test_a_user_with_the_right_password_is_served(self, client: SaslClient, mechanism: str) -> None:
        answer = client.log_in(mechanism)
        assert answer.session_lifetime_ms == 0
        assert client.is_served()

    @pytest.mark.parametrize("mechanism", ALL)
    @pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("alice", "hunter2")])
    def test_anybody_else_is_refused_and_the_connection_closed(
        self, client: SaslClient, mechanism: str, user: str, password: str
    ) -> None:
        answer = client.log_in(mechanism, user, password)
        assert answer.error_code == FAILED
        assert answer.error_message is not None
        assert answer.error_message.startswith("Authentication failed: Invalid user")
        assert client.is_closed_by_broker()

    @pytest.mark.parametrize("mechanism", ALL)
    def test_a_refusal_says_the_same_whether_or_not_the_user_exists(self, broker: Broker, mechanism: str) -> None:
        said = set()
        for name in ("alice", "nobody"):
            with SaslClient(broker.port) as client:
                said.add(client.log_in(mechanism, name, "wrong").error_message)
        assert len(said) == 1

    def test_a_wrong_password_costs_as_many_derivations_whether_or_not_the_user_exists(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        derived = []
        derive = scram.salted_password

        def counted(*args: object) -> bytes:
            derived.append((args[0], args[3]))
            return derive(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(scram, "salted_password", counted)
        for name in ("alice", "nobody"):
            with SaslClient(broker.port) as client:
                assert client.log_in("PLAIN", name, "wrong").error_code == FAILED
        assert len(derived) == 2
        assert derived[0] == derived[1]

    def test_the_versions_may_be_asked_for_first(self, client: SaslClient) -> None:
        assert client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code == 0
        client.log_in()
        assert client.is_served()
        assert client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code == 0

    def test_requests_behind_the_password_wait_for_its_check(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        client.post(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
        client.post(m.MetadataRequest(topics=[]), 12)
        client.post(m.MetadataRequest(topics=[]), 12)
        assert client.take(m.SaslAuthenticateResponse).error_code == 0
        assert len(client.take(m.MetadataResponse).brokers) == 1
        assert len(client.take(m.MetadataResponse).brokers) == 1

    def test_requests_behind_a_wrong_password_are_not_handled(self, client: SaslClient, broker: Broker) -> None:
        client.handshake("PLAIN")
        client.post(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        client.post(m.CreateTopicsRequest(topics=[m.CreateTopicsRequest.CreatableTopic("t", 1, 1)], timeout_ms=100), 5)
        assert client.take(m.SaslAuthenticateResponse).error_code == FAILED
        assert client.is_closed_by_broker()
        assert broker._running().parts.dispatcher.requests(ApiKey.CREATE_TOPICS) == 0

    def test_too_many_passwords_at_a_time_are_refused(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(password_checks, "AT_ONCE", 0)
        monkeypatch.setattr(password_checks, "MAX_WAITING", 0)
        with SaslClient(broker.port) as client:
            answer = client.log_in("PLAIN")
        assert answer.error_code == FAILED
        assert "too many clients" in (answer.error_message or "")

    def test_logins_are_counted(self, broker: Broker) -> None:
        for password in ("secret", "wrong", "wrong"):
            with SaslClient(broker.port) as client:
                client.log_in(password=password)
        assert metric(broker, "kafka_server_socket_server_metrics_successful_authentication_total") == 1
        assert metric(broker, "kafka_server_socket_server_metrics_failed_authentication_total") == 2
        until(lambda: metric(broker, "penstock_unauthenticated_connections") == 0)

    def test_a_failure_is_logged_with_an_escaped_name_and_without_the_password(
        self, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING), SaslClient(broker.port) as client:
            client.log_in("PLAIN", "al\nice", "top-secret")
        (line,) = [each for each in caplog.messages if "failed" in each]
        assert r"'al\nice'" in line
        assert "127.0.0.1" in line
        assert "top-secret" not in caplog.text

    def test_coordinators_see_who_it_is(self, client: SaslClient) -> None:
        client.log_in()
        answer = client.ask(m.CreateDelegationTokenRequest(), m.CreateDelegationTokenResponse, 3)
        assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "alice")


class TestOldHandshake:
    """Version 0: the mechanism's messages travel as bare frames."""

    def test_a_password_in_a_bare_frame_is_answered_with_an_empty_one(self, client: SaslClient) -> None:
        assert client.handshake("PLAIN", version=0).error_code == 0
        assert client.bare(b"\0alice\0secret") == b""
        assert client.is_served()

    def test_scram_goes_through_bare_frames(self, client: SaslClient) -> None:
        client.handshake("SCRAM-SHA-256", version=0)
        exchange = ScramClient(MECHANISMS["SCRAM-SHA-256"], "bob", "hunter2", "abc")
        challenge = client.bare(exchange.first())
        assert challenge is not None
        final = exchange.receive(challenge)
        assert final is not None
        answer = client.bare(final)
        assert answer is not None
        assert exchange.receive(answer) is None
        assert client.is_served()

    @pytest.mark.parametrize("token", [b"\0alice\0wrong", b"", b"x", b"\xff" * 100])
    def test_anything_else_closes_without_an_answer(self, client: SaslClient, token: bytes) -> None:
        client.handshake("PLAIN", version=0)
        assert client.bare(token) is None


class TestOrder:
    def test_an_unsupported_mechanism_gets_the_list_of_those_that_are_enabled(self, client: SaslClient) -> None:
        answer = client.handshake("GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ALL
        assert client.is_closed_by_broker()

    def test_a_request_before_authentication_is_not_handled(self, client: SaslClient) -> None:
        client.post(m.MetadataRequest(topics=None), 12)
        assert client.is_closed_by_broker()

    def test_a_request_between_handshake_and_password_is_not_handled(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        client.post(m.MetadataRequest(topics=None), 12)
        assert client.is_closed_by_broker()

    def test_the_versions_are_told_once(self, client: SaslClient) -> None:
        client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
        client.post(m.ApiVersionsRequest(), 0)
        assert client.is_closed_by_broker()

    def test_the_versions_may_be_asked_for_again_after_an_error(self, client: SaslClient) -> None:
        client.send_frame(b"\0\x12\x7f\xff\0\0\0\1\xff\xff\0")
        assert client.read_frame() is not None
        bad = m.ApiVersionsRequest(client_software_name="", client_software_version="")
        assert client.ask(bad, m.ApiVersionsResponse, 3).error_code == ErrorCode.INVALID_REQUEST
        assert client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code == 0
        client.log_in()
        assert client.is_served()

    def test_the_versions_during_the_exchange_are_out_of_place(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        assert client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code == ILLEGAL
        assert client.is_closed_by_broker()

    def test_a_second_handshake_is_out_of_place(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        assert client.handshake("PLAIN").error_code == ILLEGAL
        assert client.is_closed_by_broker()

    def test_a_password_without_a_handshake_is_out_of_place(self, client: SaslClient) -> None:
        client.post(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
        assert client.is_closed_by_broker()

    def test_a_password_after_authentication_is_out_of_place_and_changes_nothing(self, client: SaslClient) -> None:
        client.log_in()
        assert client.token(b"\0bob\0hunter2").error_code == ILLEGAL
        assert client.is_served()

    def test_a_token_that_is_too_large_closes(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        client.send((524_289).to_bytes(4, "big"))
        assert client.is_closed_by_broker()

    def test_what_is_sent_before_authentication_has_a_bound_in_all(self, client: SaslClient) -> None:
        padding = b"\0\x12\x7f\xff\0\0\0\1\xff\xff\0" + bytes(500_000)
        sent = 0
        try:
            while sent <= 2 * MAX_BYTES_BEFORE:
                client.send_frame(padding)
                sent += len(padding)
                if client.read_frame() is None:
                    break
        except ConnectionError:
            pass
        assert sent <= MAX_BYTES_BEFORE + len(padding)

    def test_others_are_served_while_a_failure_is_held_back(self, tmp_path: Path) -> None:
        with (
            sasl_broker(tmp_path, {"connection.failed.authentication.delay.ms": 60_000}) as broker,
            SaslClient(broker.port) as failed,
            SaslClient(broker.port) as other,
        ):
            failed.handshake("PLAIN")
            failed.post(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
            other.log_in()
            assert other.is_served()
            assert not failed.is_readable(0)


class TestReauthentication:
    @pytest.fixture
    def broker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
        monkeypatch.setattr(authentication_module, "MIN_SECONDS_BETWEEN", 0.0)
        with sasl_broker(tmp_path, {"connections.max.reauth.ms": 60_000}) as running:
            yield running

    @pytest.mark.parametrize("mechanism", ALL)
    def test_a_client_is_told_how_long_its_session_lasts_and_authenticates_anew(
        self, client: SaslClient, broker: Broker, mechanism: str
    ) -> None:
        assert client.log_in(mechanism).session_lifetime_ms == 60_000
        assert client.is_served()
        for _ in range(3):
            assert client.log_in(mechanism).session_lifetime_ms == 60_000
            assert client.is_served()
        assert metric(broker, "kafka_server_socket_server_metrics_successful_reauthentication_total") == 3

    def test_requests_around_it_are_answered_in_order(self, client: SaslClient) -> None:
        client.log_in()
        client.post(m.MetadataRequest(topics=[]), 12)
        client.post(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.post(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
        client.post(m.MetadataRequest(topics=[]), 12)
        assert client.take(m.MetadataResponse).brokers
        assert client.take(m.SaslHandshakeResponse).error_code == 0
        assert client.take(m.SaslAuthenticateResponse).error_code == 0
        assert client.take(m.MetadataResponse).brokers

    def test_nobody_becomes_somebody_else(self, client: SaslClient) -> None:
        client.log_in()
        answer = client.log_in("PLAIN", "bob", "hunter2")
        assert answer.error_code == FAILED
        assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert client.is_closed_by_broker()

    def test_the_mechanism_stays_the_same(self, client: SaslClient) -> None:
        client.log_in()
        answer = client.log_in("SCRAM-SHA-256")
        assert answer.error_code == FAILED
        assert "not supported for re-authentication of mechanism 'PLAIN'" in (answer.error_message or "")
        assert client.is_closed_by_broker()

    def test_a_wrong_password_ends_the_session(self, client: SaslClient, broker: Broker) -> None:
        client.log_in()
        assert client.log_in(password="wrong").error_code == FAILED
        assert client.is_closed_by_broker()
        assert metric(broker, "kafka_server_socket_server_metrics_failed_reauthentication_total") == 1

    def test_other_requests_during_it_are_not_handled(self, client: SaslClient) -> None:
        client.log_in()
        client.handshake("PLAIN")
        client.post(m.MetadataRequest(topics=[]), 12)
        assert client.is_closed_by_broker()

    def test_it_is_done_once_a_second_at_most(self, client: SaslClient, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(authentication_module, "MIN_SECONDS_BETWEEN", 1000.0)
        client.log_in()
        client.log_in()
        assert client.handshake("PLAIN").error_code == ILLEGAL
        assert client.is_served()


class TestExpiry:
    @pytest.fixture
    def broker(self, tmp_path: Path) -> Iterator[Broker]:
        with sasl_broker(tmp_path, {"connections.max.reauth.ms": 50}) as running:
            yield running

    def is_expired(self, broker: Broker) -> bool:
        (connection,) = broker._running().parts.dispatcher.connections
        assert connection.authentication is not None
        return time.monotonic() > connection.authentication._expires_at

    def test_a_session_that_is_over_is_closed_at_the_next_request(self, client: SaslClient, broker: Broker) -> None:
        client.log_in()
        until(lambda: self.is_expired(broker))
        client.post(m.MetadataRequest(topics=[]), 12)
        assert client.is_closed_by_broker()
        assert metric(broker, "kafka_server_socket_server_metrics_expired_connections_killed_count") == 1

    def test_a_session_that_is_over_may_still_be_renewed(self, client: SaslClient, broker: Broker) -> None:
        client.log_in()
        until(lambda: self.is_expired(broker))
        assert client.log_in().error_code == 0

    def test_a_client_that_cannot_authenticate_anew_is_closed_in_its_silence(self, client: SaslClient) -> None:
        client.log_in(version=0)
        assert client.is_closed_by_broker()

    def test_so_is_one_with_bare_tokens(self, client: SaslClient) -> None:
        client.handshake("PLAIN", version=0)
        assert client.bare(b"\0alice\0secret") == b""
        assert client.is_closed_by_broker()


class TestRevocation:
    @pytest.fixture
    def admin(self, broker: Broker) -> Iterator[SaslClient]:
        with SaslClient(broker.port) as client:
            client.log_in("PLAIN", "bob", "hunter2")
            yield client

    @pytest.mark.parametrize("mechanism", ALL)
    def test_a_removed_user_is_cut_off(self, client: SaslClient, admin: SaslClient, mechanism: str) -> None:
        client.log_in(mechanism)
        admin.remove_user("alice")
        assert client.is_closed_by_broker()
        assert admin.is_served()

    def test_a_changed_password_ends_the_sessions_of_the_old_one(
        self, client: SaslClient, admin: SaslClient, broker: Broker
    ) -> None:
        client.log_in("SCRAM-SHA-512")
        request = m.AlterUserScramCredentialsRequest
        salted = scram.salted_password(MECHANISMS["SCRAM-SHA-512"], "new", b"salt", 4096)
        upsertion = request.ScramCredentialUpsertion("alice", 2, 4096, b"salt", salted)
        answer = admin.ask(request(upsertions=[upsertion]), m.AlterUserScramCredentialsResponse, 0)
        assert answer.results[0].error_code == 0
        with SaslClient(broker.port) as newcomer:
            newcomer.log_in("SCRAM-SHA-512", "alice", "new")
            assert client.is_closed_by_broker()
            assert newcomer.is_served()

    def test_an_exchange_that_began_before_the_change_does_not_get_through(
        self, client: SaslClient, admin: SaslClient
    ) -> None:
        client.handshake("SCRAM-SHA-256")
        exchange = ScramClient(MECHANISMS["SCRAM-SHA-256"], "alice", "secret", "abc")
        client.token(exchange.first())
        admin.remove_user("alice")
        assert client.is_closed_by_broker()

    def test_who_removes_themselves_is_answered_first(self, admin: SaslClient) -> None:
        admin.remove_user("bob")
        assert admin.is_closed_by_broker()


class TestNewcomers:
    def test_who_says_nothing_is_closed(self, tmp_path: Path) -> None:
        with (
            sasl_broker(tmp_path, {"penstock.authentication.timeout.ms": 1}) as broker,
            SaslClient(broker.port) as client,
        ):
            assert client.is_closed_by_broker()

    def test_one_too_many_closes_the_oldest_and_not_who_is_authenticated(self, tmp_path: Path) -> None:
        with sasl_broker(tmp_path, {"penstock.unauthenticated.connections.max.per.ip": 2}) as broker:
            clients = []
            with SaslClient(broker.port) as known:
                known.log_in()
                for _ in range(3):
                    clients.append(SaslClient(broker.port))
                    until(lambda: metric(broker, "penstock_unauthenticated_connections") >= min(2, len(clients)))
                assert clients[0].is_closed_by_broker()
                clients[2].log_in()
                assert clients[2].is_served()
                assert known.is_served()
            for client in clients:
                client.close()

    def test_who_is_not_authenticated_does_not_use_up_the_connections_of_a_broker(self, tmp_path: Path) -> None:
        with sasl_broker(tmp_path, {"max.connections": 2}) as broker, SaslClient(broker.port) as known:
            known.log_in()
            with SaslClient(broker.port) as silent:
                until(lambda: metric(broker, "penstock_unauthenticated_connections") == 1)
                with SaslClient(broker.port) as other:
                    other.log_in()
                    assert silent.is_closed_by_broker()
                    assert known.is_served()

    def test_frames_that_are_arriving_have_a_bound_together(self, tmp_path: Path) -> None:
        with (
            sasl_broker(tmp_path, {"penstock.unauthenticated.bytes.max": 700_000}) as broker,
            SaslClient(broker.port) as first,
            SaslClient(broker.port) as second,
        ):
            first.send((500_000).to_bytes(4, "big") + b"x")
            connections = broker._running().parts.dispatcher.connections
            until(lambda: any(each._buffer is not None for each in list(connections)))
            second.send((500_000).to_bytes(4, "big") + b"x")
            assert first.is_closed_by_broker()
            assert not second.is_readable(0)
