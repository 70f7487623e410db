"""A client's side of a connection, without the connection: what to send, and what the frames that come back mean.

Requests may be pipelined. A broker answers them in order, so the oldest request that is unanswered owns the next frame,
and a correlation id that says otherwise means that the stream is broken. `send` encodes a request and remembers that an
answer is due; `answered` takes a frame (see `penstock.wire.frames.FrameBuffer`) and says which request it answers.

The first exchange is ApiVersions: it tells which versions of each API both sides speak. A broker that does not know our
version of ApiVersions itself answers error 35 in the oldest layout, with the range that it does know; so `learn` may
want the question put once more. What speaks to brokers of a known version need not negotiate.

There is no socket, no clock and no waiting here: asyncio, blocking sockets and tests each bring their own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey, api_of, response_header_version
from penstock.wire.codec import Buffer, decode
from penstock.wire.errors import ErrorCode, UnsupportedVersion, error_class
from penstock.wire.frames import SIZE, ProtocolViolation, request_frame, skip_tags

NEWEST = 2**15 - 1  # no bound on the version

_VERSION_REFUSED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


@dataclass(slots=True, frozen=True)
class Features:
    """What ApiVersions told: version ranges per API key, and the cluster's finalized feature levels."""

    api_versions: dict[int, tuple[int, int]]
    finalized: dict[str, int] = field(default_factory=dict)
    finalized_epoch: int = -1


class Expected:
    """The answer that a request is due."""

    __slots__ = ("correlation_id", "flexible", "response", "version")

    def __init__(self, correlation_id: int, response: type[m.Message], version: int) -> None:
        self.correlation_id = correlation_id
        self.response = response
        self.version = version
        self.flexible = response_header_version(api_of(response).key, version) > 0

    def decode(self, frame: memoryview) -> m.Message:
        """The message in the frame that answers; raises MalformedMessage when it cannot be read."""
        body = frame[skip_tags(frame, 4) if self.flexible else 4 :]
        if self.response is m.ApiVersionsResponse and body[:2] == _VERSION_REFUSED:
            return decode(m.ApiVersionsResponse, body, 0)
        return decode(self.response, body, self.version)


class Conversation:
    """One connection's requests and answers. `peer` is how errors name the broker."""

    def __init__(self, peer: str, client_id: str | None) -> None:
        self.features = Features({})
        self.expected: deque[Expected] = deque()
        self.correlation_id = 0  # of the newest request
        self.hello_version = API_TABLE[ApiKey.API_VERSIONS].max_version
        self._peer = peer
        self._client_id = client_id

    # Versions

    def learn(self, answer: m.ApiVersionsResponse) -> bool:
        """Take in what the broker speaks; False when it has to be asked once more, in the new `hello_version`."""
        offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and self.hello_version:
            self.hello_version = min(offered.get(ApiKey.API_VERSIONS, (0, 0))[1], self.hello_version - 1)
            return False
        if answer.error_code:
            raise error_class(answer.error_code)(f"{self._peer} does not say which versions it speaks")
        finalized = {entry.name: entry.max_version_level for entry in answer.finalized_features}
        self.features = Features(offered, finalized, answer.finalized_features_epoch)
        return True

    def version_for(self, response: type[m.Message], *, at_least: int = 0, at_most: int = NEWEST) -> int:
        """The newest version of an API that this broker, this client and the caller can all use."""
        info = api_of(response)
        offered = self.features.api_versions.get(info.key)
        if offered is None:
            raise UnsupportedVersion(f"the broker at {self._peer} does not offer {info.name}")
        version = min(offered[1], info.max_version, at_most)
        if version < max(offered[0], info.min_version, at_least):
            raise UnsupportedVersion(
                f"the broker at {self._peer} speaks {info.name} versions {offered[0]} to {offered[1]}; "
                f"needed is {max(info.min_version, at_least)} to {min(info.max_version, at_most)}"
            )
        return version

    def offers(self, response: type[m.Message], version: int = 0) -> bool:
        """Whether the broker speaks `version` or a newer one of an API."""
        offered = self.features.api_versions.get(api_of(response).key)
        return offered is not None and offered[1] >= version

    # Requests and answers

    def send(self, message: m.Message, response: type[m.Message] | None, version: int) -> list[Buffer]:
        """The bytes of a request. No `response` is expected for one that the broker does not answer (acks=0)."""
        correlation_id = (self.correlation_id + 1) & 0x7FFFFFFF
        frame = request_frame(message, version, correlation_id, self._client_id)
        self.correlation_id = correlation_id
        if response is not None:
            self.expected.append(Expected(correlation_id, response, version))
        return frame

    def answered(self, frame: memoryview) -> Expected:
        """Which request a frame answers: decode the frame with what is returned."""
        if not self.expected:
            raise ProtocolViolation("sent an answer that nothing asked for")
        if SIZE.unpack_from(frame)[0] != self.expected[0].correlation_id:
            raise ProtocolViolation("answered requests out of order")
        return self.expected.popleft()
