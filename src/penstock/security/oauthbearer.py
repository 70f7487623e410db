"""OAUTHBEARER (RFC 7628): a client shows a token that an authorization server has signed.

    client first    n,,^Aauth=Bearer <token>^A[<key>=<value>^A…]^A        (^A is the byte 1)
    server          nothing if the token is good, else {"status":"invalid_token"}
    client          ^A, after which the server fails the exchange

`verify_signature` takes tokens (JWS, RFC 7515) that one of the given keys has signed with an asymmetric algorithm.
`check_claims` decides whether what such a token claims is good here and now. Both are asked for each token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.saslnames import unescape

if TYPE_CHECKING:
    from types import ModuleType

MECHANISM = "OAUTHBEARER"
ALGORITHMS = frozenset(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)) | {"EdDSA"}
"""Signatures with a private key. Never `none`, and never a shared secret: who can check could also sign."""
ERROR_ANSWER = b"\x01"
"""What a client sends after the server has named an error, so that the server can end the exchange."""
MIN_RSA_BITS = 2048

_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[!-~ \t\r\n]+")
_CLIENT_FIRST = re.compile(r"n,(?:a=(?P<authzid>[^,\0\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[!-~ \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"bearer +(?P<token>[-_.a-zA-Z0-9]+)", re.IGNORECASE)

Claims: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ClientFirst:
    token: str = field(repr=False)
    authzid: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


def parse_client_first(message: bytes) -> ClientFirst:
    try:
        match = _CLIENT_FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedToken("this is not a client first message of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise MalformedToken("the client first message of OAUTHBEARER has no bearer token")
    return ClientFirst(auth["token"], unescape(match["authzid"] or ""), pairs)


def error_challenge(status: str = "invalid_token") -> bytes:
    return json.dumps({"status": status}, separators=(",", ":")).encode()


class OAuthBearerClient:
    """The client's side of one exchange. Raises ValueError for extensions that cannot be sent."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _AUTH.fullmatch(f"Bearer {token}"):
            raise ValueError("a bearer token consists of letters, digits and the characters . - _ only")
        pairs = [f"auth=Bearer {token}"]
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ValueError(
                    f"the SASL extension {key!r} cannot be sent: a name consists of letters and is not 'auth',"
                    " a value is printable ASCII"
                )
            pairs.append(f"{key}={value}")
        self._message = "n,,\x01{}\x01\x01".format("\x01".join(pairs)).encode()
        self._error: str | None = None
        self.complete = False

    def first(self) -> bytes:
        return self._message

    def receive(self, challenge: bytes) -> bytes | None:
        """None when the server takes the token; the answer to an error otherwise, which the server ends with."""
        if self._error is not None:
            raise AuthenticationFailed(f"the server refuses the token: {self._error}")
        if not challenge:
            self.complete = True
            return None
        self._error = challenge[:1000].decode(errors="replace")
        return ERROR_ANSWER


class PublicKeys:
    """The keys of a JSON Web Key Set (RFC 7517) that may have signed a token."""

    def __init__(self, keys: Iterable[Mapping[str, object]] = ()) -> None:
        self._keys = [dict(key) for key in keys if _may_sign(key)]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> list[Mapping[str, object]]:
        """The keys of that id; for a token that names none, all keys that fit its algorithm."""
        return [
            key
            for key in self._keys
            if (key_id is None or key.get("kid") == key_id)
            and key["kty"] == _key_type(algorithm)
            and key.get("alg") in (None, algorithm)
        ]


def parse_key_set(document: bytes) -> PublicKeys:
    """Raises ValueError for what is not a key set."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ValueError("the key set is not JSON") from error
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ValueError('the key set has no list "keys"')
    return PublicKeys(keys)


class UnknownKey(AuthenticationFailed):
    """A token names a key that the key set does not have; it may be newer than the key set."""


def verify_signature(token: str, keys: PublicKeys) -> Claims:
    """The claims of a token that one of the keys has signed. Raises AuthenticationFailed."""
    jwt = import_jwt()
    signatures = jwt.PyJWS()
    try:
        header = signatures.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise AuthenticationFailed("the token is not a signed JSON web token") from error
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise AuthenticationFailed(f"the token is signed with {algorithm!r}, not with an asymmetric algorithm")
    candidates = keys.find(key_id, algorithm)
    if not candidates:
        raise UnknownKey(f"no key of the key set has the id {key_id!r} and fits {algorithm}")
    for candidate in candidates:
        try:
            key = jwt.PyJWK(dict(candidate), algorithm=algorithm)
            return _claims(signatures.decode(token, key, algorithms=[algorithm]))
        except (jwt.PyJWTError, ValueError):
            continue
    raise AuthenticationFailed("the token's signature is wrong")


class ClaimRules(NamedTuple):
    """What a token has to claim."""

    issuer: str | None = None
    audiences: Sequence[str] = ()
    clock_skew_seconds: int = 30
    principal_claim: str = "sub"
    scope_claim: str = "scope"


class Bearer(NamedTuple):
    """Whom a token stands for, and until when."""

    principal: str
    expires_at_ms: int
    scopes: frozenset[str]


def check_claims(claims: Claims, now_ms: int, rules: ClaimRules) -> Bearer:
    """Whether the claims are good at `now_ms`. Raises AuthenticationFailed.

    As in Kafka, a token must say when it was issued and when it expires, and one that is meant for an audience is
    refused by a broker that is not told to be part of one.
    """
    now, skew = now_ms / 1000, rules.clock_skew_seconds
    expires_at, issued_at = _time(claims, "exp"), _time(claims, "iat")
    if now - skew >= expires_at:
        raise AuthenticationFailed("the token has expired")
    if now + skew < issued_at:
        raise AuthenticationFailed("the token was issued in the future (iat)")
    if "nbf" in claims and now + skew < _time(claims, "nbf"):
        raise AuthenticationFailed("the token is not valid yet (nbf)")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise AuthenticationFailed("the token is not from the expected issuer (iss)")
    audiences = _strings(claims, "aud")
    if (audiences or rules.audiences) and not audiences & set(rules.audiences):
        raise AuthenticationFailed("the token is not for the expected audience (aud)")
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise AuthenticationFailed(f"the token does not say whom it stands for ({rules.principal_claim})")
    scopes = {scope for text in _strings(claims, rules.scope_claim) for scope in text.split()}
    return Bearer(principal.strip(), int(expires_at * 1000), frozenset(scopes))


def import_jwt() -> ModuleType:
    try:
        import cryptography  # noqa: F401  without it jwt knows no asymmetric algorithm
        import jwt
    except ImportError as error:
        raise ModuleNotFoundError("OAUTHBEARER needs two more packages: pip install 'penstock[security]'") from error
    return jwt


def _claims(payload: bytes) -> Claims:
    claims = json.loads(payload)
    if not isinstance(claims, dict):
        raise AuthenticationFailed("the token holds no claims")
    return claims


def _time(claims: Claims, name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise AuthenticationFailed(f"the token has no time {name}")
    return value


def _strings(claims: Claims, name: str) -> set[str]:
    """A claim that is one text or a list of them."""
    value = claims.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str) for each in values):
        raise AuthenticationFailed(f"the token's claim {name} is neither text nor a list of texts")
    return set(values)


def _may_sign(key: Mapping[str, object]) -> bool:
    if key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use") not in (None, "sig"):
        return False
    modulus = key.get("n")
    return key["kty"] != "RSA" or (isinstance(modulus, str) and len(modulus) * 6 >= MIN_RSA_BITS)


def _key_type(algorithm: str) -> str:
    return {"RS": "RSA", "PS": "RSA", "ES": "EC"}.get(algorithm[:2], "OKP")
