"""Logging in: the order of its steps, and what happens to whoever leaves it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
import time

from ..conversation import Conversation
from ..kio_codec import Json, encode_request
from . import secured_scenario

ADMIN = b"\0admin\0admin-secret"
NAMED = {"client_software_name": "conformance", "client_software_version": "1.0"}
VERSIONS = ("api_keys", "supported_features", "finalized_features")
"""What ApiVersions says is compared in the open."""
SHA_256 = 1


def handshake(talk: Conversation, note: str, mechanism: str = "PLAIN", version: int = 1, on: str = "raw") -> Json:
    return talk.send("sasl_handshake", {"mechanism": mechanism}, version=version, on=on, note=note)


def token(talk: Conversation, note: str, data: bytes, version: int = 2, on: str = "raw") -> Json:
    return talk.send("sasl_authenticate", {"auth_bytes": data}, version=version, on=on, note=note)


def afresh(talk: Conversation) -> None:
    talk.disconnect("raw")


@secured_scenario("sasl_handshake")
def secured_sasl_handshake(talk: Conversation) -> None:
    for mechanism in ("GSSAPI", "plain", "", "SCRAM-SHA-512", "EXTERNAL"):
        handshake(talk, f"mechanism {mechanism!r}", mechanism, talk.version)
        talk.send("api_versions", NAMED, version=3, on="raw", note="after an unknown mechanism")
        afresh(talk)
    handshake(talk, "PLAIN", version=talk.version)
    if talk.version == 0:
        afresh(talk)
        for note, data in (("the bare token", ADMIN), ("a wrong bare token", b"\0admin\0wrong")):
            bare_token(talk, note, data)
        return
    handshake(talk, "twice", version=talk.version)
    afresh(talk)
    talk.send("api_versions", NAMED, version=3, on="raw", note="asks first", hidden=VERSIONS)
    handshake(talk, "after that", version=talk.version)
    token(talk, "the token", ADMIN)
    handshake(talk, "once more when authenticated", version=talk.version)
    talk.send("metadata", {"topics": []}, version=12, on="raw", note="instead of a token")


def bare_token(talk: Conversation, note: str, data: bytes) -> None:
    """A token without a Kafka header, as version 0 of the handshake wants it; its answer may be a frame of nothing."""
    chosen = encode_request("sasl_handshake", 0, {"mechanism": "PLAIN"}, 1, talk.client_id)
    asking = encode_request("describe_cluster", 0, {}, 2, talk.client_id)
    with socket.create_connection(("127.0.0.1", talk.port), timeout=3.0) as connection:
        for step, payload in (("handshake", chosen), (note, data), (f"after {note}", asking)):
            try:
                connection.sendall(struct.pack(">i", len(payload)) + payload)
                size = connection.recv(4)
                answer = connection.recv(int.from_bytes(size)) if any(size) else b""
                shown = {"answer": answer[:8].hex()} if size else {"outcome": "connection closed"}
            except ConnectionError:
                shown = {"outcome": "connection closed"}
            talk.transcript.append({"request": f"{note}: {step}", **shown})


@secured_scenario("sasl_authenticate")
def secured_sasl_plain(talk: Conversation) -> None:
    tokens = {
        "right": ADMIN,
        "right, and for oneself": b"admin\0admin\0admin-secret",
        "for another": b"alice\0admin\0admin-secret",
        "wrong password": b"\0admin\0wrong",
        "unknown user": b"\0stranger\0wrong",
        "empty password": b"\0admin\0",
        "empty user": b"\0\0admin-secret",
        "two parts": b"admin\0admin-secret",
        "four parts": b"\0admin\0admin-secret\0more",
        "empty": b"",
        "one byte": b"\0",
        "not text": b"\0admin\0\xff\xfe",
    }
    for note, data in tokens.items():
        handshake(talk, note)
        answer = token(talk, note, data, talk.version)
        if answer.get("error_code") == "NONE":
            talk.send("describe_cluster", {}, version=0, on="raw", note=f"{note}: then asks")
        else:
            talk.send("api_versions", NAMED, version=3, on="raw", note=f"{note}: then asks")
        afresh(talk)


@secured_scenario("metadata", only=(12,))
def secured_requests_before_authentication(talk: Conversation) -> None:
    others: tuple[tuple[str, dict[str, Json], int], ...] = (
        ("metadata", {"topics": []}, 12),
        ("describe_cluster", {}, 0),
        ("produce", {"acks": 1, "timeout": 1000, "topic_data": []}, 9),
        ("sasl_authenticate", {"auth_bytes": ADMIN}, 2),
        ("create_acls", {"creations": []}, 3),
    )
    for api, body, version in others:
        talk.send(api, body, version=version, on="raw", note="first of all")
        afresh(talk)
        talk.send("api_versions", NAMED, version=3, on="raw", note=f"before {api}", hidden=VERSIONS)
        talk.send(api, body, version=version, on="raw", note="after asking for versions")
        afresh(talk)
        if api == "sasl_authenticate":
            continue
        handshake(talk, f"before {api}")
        talk.send(api, body, version=version, on="raw", note="instead of a token")
        afresh(talk)


@secured_scenario("api_versions")
def secured_versions_before_authentication(talk: Conversation) -> None:
    talk.send("api_versions", NAMED, on="raw", note="first", hidden=VERSIONS)
    talk.send("api_versions", NAMED, on="raw", note="second", hidden=VERSIONS)
    afresh(talk)
    handshake(talk, "before asking")
    talk.send("api_versions", NAMED, on="raw", note="between handshake and token", hidden=VERSIONS)
    afresh(talk)
    talk.send("api_versions", NAMED, on="raw", note="first", hidden=VERSIONS)
    handshake(talk, "then")
    token(talk, "then", ADMIN)
    talk.send("api_versions", NAMED, on="raw", note="when authenticated", hidden=VERSIONS)
    if talk.version >= 3:
        afresh(talk)
        odd = {"client_software_name": "a b", "client_software_version": ""}
        talk.send("api_versions", odd, on="raw", note="an odd name", hidden=VERSIONS)
        talk.send("api_versions", NAMED, on="raw", note="then a good one", hidden=VERSIONS)


@secured_scenario("api_versions", only=(0,))
def secured_frames_before_authentication(talk: Conversation) -> None:
    def header(api_key: int, version: int) -> bytes:
        return struct.pack(">hhih", api_key, version, 7, 1) + b"c"

    def framed(payload: bytes) -> bytes:
        return struct.pack(">i", len(payload)) + payload

    raw = talk.send_raw
    raw(framed(header(18, 99)), "ApiVersions v99")
    raw(framed(header(17, 99)), "SaslHandshake v99")
    raw(framed(header(36, 99)), "SaslAuthenticate v99")
    raw(framed(header(999, 0)), "unknown api")
    raw(framed(b""), "empty frame")
    raw(framed(b"\0\x12"), "half a header")
    raw(framed(ADMIN), "a token without a handshake")
    raw(struct.pack(">i", -1), "negative length")
    raw(struct.pack(">i", 200_000_000), "a frame of 200 MB")
    raw(struct.pack(">i", 600_000), "a frame of 600 kB")
    raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request")
    raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "the beginning of a TLS handshake")


@secured_scenario("sasl_authenticate", least=1)
def secured_reauthentication(talk: Conversation) -> None:
    handshake(talk, "first")
    token(talk, "first", ADMIN, talk.version)
    token(talk, "without a handshake", ADMIN, talk.version)
    talk.send("describe_cluster", {}, version=0, on="raw", note="still there")
    time.sleep(1.1)  # re-authentication is allowed once a second
    handshake(talk, "again")
    token(talk, "again", ADMIN, talk.version)
    handshake(talk, "at once")
    talk.send("describe_cluster", {}, version=0, on="raw", note="still there")
    time.sleep(1.1)
    handshake(talk, "as another")
    token(talk, "as another", b"\0alice\0alice-secret", talk.version)
    talk.send("describe_cluster", {}, version=0, on="raw", note="after it")
    afresh(talk)
    for what, answer in (("a wrong password", b"\0admin\0wrong"), ("nothing", b"")):
        handshake(talk, f"before {what}")
        token(talk, f"before {what}", ADMIN, talk.version)
        time.sleep(1.1)
        handshake(talk, f"again, with {what}")
        token(talk, f"again, with {what}", answer, talk.version)
        talk.send("describe_cluster", {}, version=0, on="raw", note=f"after {what}")
        afresh(talk)
    handshake(talk, "before another mechanism")
    token(talk, "before another mechanism", ADMIN, talk.version)
    time.sleep(1.1)
    handshake(talk, "another mechanism", "SCRAM-SHA-256")
    talk.send("describe_cluster", {}, version=0, on="raw", note="after another mechanism")
    afresh(talk)
    handshake(talk, "before a request")
    token(talk, "before a request", ADMIN, talk.version)
    time.sleep(1.1)
    handshake(talk, "and then a request")
    talk.send("describe_cluster", {}, version=0, on="raw", note="instead of a token")


class Scram:
    """A SCRAM client that a scenario leads through its messages."""

    def __init__(self, user: str, password: str) -> None:
        self.password = password
        self.bare = f"n={user},r=clientnonce"
        self.first = f"n,,{self.bare}".encode()

    def final(self, server_first: str, *, broken: str = "") -> bytes:
        parts = dict(part.split("=", 1) for part in server_first.split(","))
        salt, iterations = base64.b64decode(parts["s"]), int(parts["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        nonce = "another" if broken == "nonce" else parts["r"]
        binding = "eSws" if broken == "binding" else "biws"
        without_proof = f"c={binding},r={nonce}"
        message = f"{self.bare},{server_first},{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@secured_scenario("sasl_authenticate", only=(2,))
def secured_sasl_scram(talk: Conversation) -> None:
    user = talk.name("u")
    salt, iterations = b"saltsalt", 4096
    salted = hashlib.pbkdf2_hmac("sha256", b"right", salt, iterations)
    one = {"name": user, "mechanism": SHA_256, "iterations": iterations, "salt": salt, "salted_password": salted}
    talk.quietly("alter_user_scram_credentials", {"deletions": [], "upsertions": [one]}, 0)
    requested = {"users": [{"name": user}]}
    talk.until(
        lambda a: a["results"][0]["error_code"] == "NONE", "describe_user_scram_credentials", requested, version=0
    )

    def first(note: str, data: bytes) -> str:
        handshake(talk, note, "SCRAM-SHA-256")
        body = {"auth_bytes": data}
        answer = talk.send("sasl_authenticate", body, on="raw", note=f"{note}: begins", hidden=("auth_bytes",))
        return bytes.fromhex(answer.get("auth_bytes", "")).decode() if answer.get("error_code") == "NONE" else ""

    def last(note: str, data: bytes) -> None:
        body = {"auth_bytes": data}
        talk.send("sasl_authenticate", body, on="raw", note=f"{note}: proves", hidden=("auth_bytes",))
        talk.send("describe_cluster", {}, version=0, on="raw", note=f"{note}: then asks")
        afresh(talk)

    for note, password, broken in (
        ("right password", "right", ""),
        ("wrong password", "wrong", ""),
        ("wrong nonce", "right", "nonce"),
        ("wrong channel binding", "right", "binding"),
    ):
        client = Scram(user, password)
        last(note, client.final(first(note, client.first), broken=broken))
    for note, data in (
        ("not a message", b"hello"),
        ("channel binding", b"p=tls-unique,,n=user,r=abc"),
        ("for another", b"n,a=alice," + Scram(user, "right").bare.encode()),
        ("extension", b"n,," + Scram(user, "right").bare.encode() + b",m=x"),
        ("odd escapes", b"n,,n=a=2Xb,r=abc"),
        ("a password in place of a proof", ADMIN),
    ):
        if first(note, data):
            last(note, b"c=biws,r=x,p=AAAA")
        afresh(talk)
    first("unknown user", Scram(talk.name("stranger"), "right").first)
    last("unknown user", b"c=biws,r=x,p=AAAA")
