"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's and the server's side.

The client proves that it knows a password without sending it, and the server that it holds the credential:

    client first    n,,n=<user>,r=<client nonce>
    server first    r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client final    c=biws,r=<both nonces>,p=<proof>
    server final    v=<signature>

A credential is what the server stores: salt, iterations, StoredKey and ServerKey. It cannot be used to log in. Kafka
takes passwords and names as plain UTF-8, without the normalisation of SASLprep, and there is no channel binding.

For a user who does not exist the server continues with a made-up credential, which is the same each time, so that only
the proof fails and nobody learns from the exchange which users there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.saslnames import escape, unescape

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's bounds of what a credential may have."""
MAX_ITERATIONS_OF_SERVER = 1_000_000
"""What a client computes at most, so that a server cannot keep it busy forever."""
TOKEN_AUTH = "tokenauth"
"""The extension by which a client says that its name is that of a delegation token."""

_SALT_BYTES = 26
_GS2_HEADER_BASE64 = base64.b64encode(b"n,,").decode()
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_BASE_36 = frozenset(_DIGITS.encode())

_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*)"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>[^,\0]+))?,)(?P<bare>n=(?P<user>[^,\0]+),r=(?P<nonce>[!-+\--~]+){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(rf"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>[^,]+),r=(?P<nonce>[!-+\--~]+){_EXTENSIONS}),p=(?P<proof>[^,]+)"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,]+)|v=(?P<signature>[^,]+)){_EXTENSIONS}")


class ScramMechanism(IntEnum):
    """The numbers are those of AlterUserScramCredentials."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64


MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class Credential(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """What takes the time: `iterations` rounds of HMAC."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential of a password that was salted elsewhere, as AlterUserScramCredentials sends it."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return Credential(salt, iterations, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key"))


def credential_of(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> Credential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def made_up_credential(
    mechanism: ScramMechanism, secret: bytes, user: str, like: Credential | None = None
) -> Credential:
    """The credential of a user who does not exist: stable, and no password fits it.

    It has as many iterations as `like`, and a salt of the same length and alphabet: Kafka's own tools write salts in
    base 36.
    """
    salt = _made_up(secret, mechanism, user, "salt", len(like.salt) if like else _SALT_BYTES)
    if like is None or _BASE_36.issuperset(like.salt):
        salt = bytes(ord(_DIGITS[byte % 36]) for byte in salt)
    iterations = like.iterations if like else MIN_ITERATIONS
    stored_key = _made_up(secret, mechanism, user, "stored key", mechanism.key_bytes)
    return Credential(
        salt, iterations, stored_key, _made_up(secret, mechanism, user, "server key", mechanism.key_bytes)
    )


def matches(mechanism: ScramMechanism, credential: Credential, password: str) -> bool:
    """Whether a password is that of the credential; as much work for a made-up credential as for a real one."""
    found = credential_of(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


class ScramClient:
    """The client's side of one exchange. The nonce is unforeseeable text without commas."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: str,
        nonce: str,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        added = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        self._first_bare = f"n={escape(user)},r={nonce}{added}"
        self._signature: bytes | None = None
        self.complete = False

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def receive(self, challenge: bytes) -> bytes | None:
        """What to send next, or None when the server has proved itself. Raises AuthenticationFailed."""
        if self._signature is None:
            return self._respond(challenge)
        self._verify(challenge, self._signature)
        return None

    def _respond(self, challenge: bytes) -> bytes:
        match = _match(_SERVER_FIRST, challenge, "server first")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS_OF_SERVER:
            raise AuthenticationFailed(
                f"the server asks for {iterations} iterations;"
                f" between {MIN_ITERATIONS} and {MAX_ITERATIONS_OF_SERVER} are accepted"
            )
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, _decode(match["salt"]), iterations)
        without_proof = f"c={_GS2_HEADER_BASE64},r={nonce}"
        message = ",".join((self._first_bare, match[0], without_proof)).encode()
        client_key = _hmac(mechanism, salted, b"Client Key")
        proof = _xor(client_key, _hmac(mechanism, _hash(mechanism, client_key), message))
        self._signature = _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), message)
        return f"{without_proof},p={_encode(proof)}".encode()

    def _verify(self, challenge: bytes, expected: bytes) -> None:
        match = _match(_SERVER_FINAL, challenge, "server final")
        if match["error"]:
            raise AuthenticationFailed(f"the server refuses the client's proof: {match['error']}")
        if not hmac.compare_digest(_decode(match["signature"]), expected):
            raise AuthenticationFailed("the server does not know the password: its signature is wrong")
        self.complete = True


class ScramServer:
    """The server's side of one exchange.

    `look_up` gives the credential of a user, a made-up one for a user who does not exist.
    """

    def __init__(self, mechanism: ScramMechanism, nonce: str, look_up: Callable[[str], Credential]) -> None:
        self._mechanism = mechanism
        self._server_nonce = nonce
        self._look_up = look_up
        self._credential: Credential | None = None
        self._gs2 = self._nonce = self._so_far = ""
        self.user = ""
        """Who the client says it is, from its first message on."""
        self.complete = False

    def receive(self, message: bytes) -> bytes:
        """The answer to a client's message; `complete` tells whether it was the last. Raises AuthenticationFailed."""
        if self._credential is None:
            return self._challenge(message)
        return self._check(message, self._credential)

    def _challenge(self, message: bytes) -> bytes:
        match = _match(_CLIENT_FIRST, message, "client first")
        self.user = unescape(match["user"])
        if match["authzid"] and unescape(match["authzid"]) != self.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if f",{TOKEN_AUTH}=true" in match["extensions"].lower():
            raise AuthenticationFailed("Authentication failed: Delegation tokens are not enabled on this broker")
        credential = self._credential = self._look_up(self.user)
        self._gs2, self._nonce = match["gs2"], match["nonce"] + self._server_nonce
        first = f"r={self._nonce},s={_encode(credential.salt)},i={credential.iterations}"
        self._so_far = f"{match['bare']},{first}"
        return first.encode()

    def _check(self, message: bytes, credential: Credential) -> bytes:
        match = _match(_CLIENT_FINAL, message, "client final")
        # As in Kafka: librdkafka before 2.8 sends its own nonce twice, in front of the server's.
        if not match["nonce"].endswith(self._nonce):
            raise MalformedToken("the nonce of the final message is not that of the exchange")
        if _decode(match["channel"]) != self._gs2.encode():
            raise MalformedToken("the channel binding is not that of the first message")
        mechanism = self._mechanism
        signed = f"{self._so_far},{match['without_proof']}".encode()
        proof = _decode(match["proof"])
        if len(proof) != mechanism.key_bytes:
            raise MalformedToken(f"a proof of {len(proof)} bytes")
        client_key = _xor(proof, _hmac(mechanism, credential.stored_key, signed))
        if not hmac.compare_digest(_hash(mechanism, client_key), credential.stored_key):
            raise AuthenticationFailed("Authentication failed: Invalid user credentials")
        self.complete = True
        return f"v={_encode(_hmac(mechanism, credential.server_key, signed))}".encode()


def _match(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedToken(f"this is not a {name} message of SCRAM")
    return match


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedToken("a field that is not base64") from error


def _hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()


def _hmac(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash_name)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _made_up(secret: bytes, mechanism: ScramMechanism, user: str, use: str, size: int) -> bytes:
    """`size` bytes that follow from a secret, and from who and what they are for."""
    key = hmac.digest(secret, f"{mechanism.sasl_name}\0{use}\0{user}".encode(), "sha512")
    return hashlib.shake_256(key).digest(size)
