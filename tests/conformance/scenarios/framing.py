"""Requests that are wrong before they mean anything: unknown APIs and versions, broken frames, broken bodies."""

from __future__ import annotations

import struct

from tests.broker.raw import framed as frame

from ..conversation import Conversation
from ..kio_codec import encode_request
from . import scenario


def header(api_key: int, version: int, client_id: bytes | None = b"c") -> bytes:
    tail = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_key, version, 7) + tail


@scenario("api_versions", only=(0,))
def broken_requests(talk: Conversation) -> None:
    raw = talk.send_raw
    raw(frame(header(18, 99)), "ApiVersions v99")
    raw(frame(header(18, -1)), "ApiVersions v-1")
    raw(frame(header(999, 0)), "unknown api 999")
    raw(frame(header(-1, 0)), "unknown api -1")
    raw(frame(header(4, 0)), "LeaderAndIsr, which no client may send")
    raw(frame(header(3, 99)), "Metadata v99")
    for version in range(3):  # KIP-896: named for the sake of librdkafka, which looks for them, and not served
        raw(frame(header(0, version)), f"produce v{version}: advertised and refused")
    raw(frame(header(82, 0)), "UpdateRaftVoter, which no client may send")
    raw(frame(header(1, 3)), "Fetch v3, removed")
    raw(frame(header(3, 1, None)), "Metadata v1 without a client id, no body")
    raw(frame(b""), "empty frame")
    raw(frame(b"\0\x12"), "half a header")
    raw(struct.pack(">i", -1), "negative length")
    raw(struct.pack(">i", 200_000_000), "larger than socket.request.max.bytes")
    raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request")
    good = encode_request("metadata", 1, {"topics": None}, 7, "c")
    raw(frame(good[:-2]), "Metadata v1, body cut off")
    raw(frame(good[:-4] + struct.pack(">i", 1000)), "Metadata v1, array longer than the body")
    raw(frame(good[:-4] + struct.pack(">i", 2_000_000_000)), "Metadata v1, array of two thousand million")
    raw(frame(good[:-4] + struct.pack(">i", -7)), "Metadata v1, array of length -7")
    raw(frame(header(18, 0, None)), "ApiVersions v0 after all that")
