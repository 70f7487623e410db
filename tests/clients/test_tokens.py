"""The tokens that tests show are what the JWKS file beside them vouches for."""

from __future__ import annotations

import json
from pathlib import Path

import jwt
import pytest

from tests.clients.tokens import AUDIENCE, ISSUER, TokenIssuer, write_jwks


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_is_verified_by_its_issuers_key_and_no_other(tmp_path: Path, algorithm: str) -> None:
    issuer, other = TokenIssuer("a", algorithm), TokenIssuer("b", algorithm)
    keys = jwt.PyJWKSet.from_dict(json.loads(write_jwks(tmp_path / "jwks.json", issuer, other).read_text()))
    token = issuer.token("alice")
    kid = jwt.get_unverified_header(token)["kid"]
    claims = jwt.decode(token, keys[kid].key, [algorithm], audience=AUDIENCE, issuer=ISSUER)
    assert claims["sub"] == "alice"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(token, keys["b"].key, [algorithm], audience=AUDIENCE, issuer=ISSUER)


def test_a_token_of_the_past_has_expired(tmp_path: Path) -> None:
    issuer = TokenIssuer()
    key = jwt.PyJWK.from_dict(issuer.jwk()).key
    with pytest.raises(jwt.ExpiredSignatureError):
        jwt.decode(issuer.token("alice", -1), key, ["RS256"], audience=AUDIENCE, issuer=ISSUER)
