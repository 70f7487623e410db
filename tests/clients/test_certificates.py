"""The authority that tests and the benchmark use vouches for those it knows, at the addresses it names."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import cast

import pytest

from bench.certificates import Authority, Identity


def shake_hands(server: Identity, client: ssl.SSLContext, host: str, trusted: Authority) -> str:
    """The subject that the server sees, over pipes in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(trusted.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = context.wrap_bio(to_server, to_client, server_side=True)
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", (theirs.getpeercert() or {}).get("subject", ()))
    return dict(pair[0] for pair in subject).get("commonName", "")


def test_a_client_is_who_its_certificate_says(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    broker, alice = authority.issue("broker", "127.0.0.1", "localhost"), authority.issue("alice")
    assert shake_hands(broker, authority.client_context(alice), "localhost", authority) == "alice"
    assert shake_hands(broker, authority.client_context(), "127.0.0.1", authority) == ""


def test_another_host_and_another_authority_are_refused(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    broker = authority.issue("broker", "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(broker, authority.client_context(), "localhost", authority)
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(broker, stranger.client_context(), "127.0.0.1", authority)
