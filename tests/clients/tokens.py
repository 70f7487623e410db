"""Signed tokens for OAUTHBEARER and the JWKS file that a broker checks them against."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://login.example"
AUDIENCE = "penstock-tests"


class TokenIssuer:
    """Signs tokens with a key of its own, `RS256` or `ES256`; its public half goes into the JWKS."""

    def __init__(self, kid: str = "key-1", algorithm: str = "RS256") -> None:
        self.kid = kid
        self._algorithm = algorithm
        self._key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        if algorithm == "RS256":
            self._key = rsa.generate_private_key(65537, 2048)
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())

    def jwk(self) -> dict[str, str]:
        """The public key, as an entry of a JWKS."""
        public = self._key.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            key = jwt.algorithms.RSAAlgorithm.to_jwk(public)
        else:
            key = jwt.algorithms.ECAlgorithm.to_jwk(public)
        return {**json.loads(key), "kid": self.kid, "use": "sig", "alg": self._algorithm}

    def token(self, user: str, lifetime_s: float = 3600, **claims: object) -> str:
        """A token of `user` that expires after this time; a negative one has expired already."""
        now = time.time()
        payload = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": int(min(now, now + lifetime_s - 1)),
            "exp": now + lifetime_s,
            **claims,
        }
        return jwt.encode(payload, self._key, algorithm=self._algorithm, headers={"kid": self.kid})


def write_jwks(file: Path, *issuers: TokenIssuer) -> Path:
    file.write_text(json.dumps({"keys": [issuer.jwk() for issuer in issuers]}))
    return file
