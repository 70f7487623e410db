from __future__ import annotations

import io
import struct
from io import BytesIO

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiInfo, ApiKey
from penstock.wire.codec import MalformedMessage, decode, encode_parts
from penstock.wire.frames import (
    FrameBuffer,
    LooksLikeTls,
    ProtocolViolation,
    RequestHeader,
    parse_request_header,
    request_frame,
    response_frame,
    skip_tags,
)


def kio_header(cls: type[HeaderV1] | type[HeaderV2], key: int, version: int, client_id: str | None) -> bytes:
    with BytesIO() as buffer:
        header = cls(
            request_api_key=i16(key), request_api_version=i16(version), correlation_id=i32(7), client_id=client_id
        )
        entity_writer(cls)(buffer, header)
        return buffer.getvalue()


@pytest.mark.parametrize("client_id", ["my-client", "", "ü", None])
@pytest.mark.parametrize(("cls", "version"), [(HeaderV1, 8), (HeaderV2, 9)])
def test_a_request_header_is_read_as_kio_writes_it(
    cls: type[HeaderV1] | type[HeaderV2], version: int, client_id: str | None
) -> None:
    data = kio_header(cls, ApiKey.METADATA, version, client_id)
    header, body = parse_request_header(memoryview(data + b"body"))
    assert header == RequestHeader(ApiKey.METADATA, version, 7, client_id)
    assert body == len(data)


@pytest.mark.parametrize("client_id", ["my-client", None])
@pytest.mark.parametrize("version", [3, 4])
def test_a_request_frame_is_size_header_and_body(client_id: str | None, version: int) -> None:
    request = m.HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = b"".join(request_frame(request, version, 7, client_id))
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    header, body = parse_request_header(memoryview(frame)[4:])
    assert header == RequestHeader(ApiKey.HEARTBEAT, version, 7, client_id)
    assert decode(m.HeartbeatRequest, frame[4 + body :], version) == request


@pytest.mark.parametrize("info", API_TABLE.values(), ids=lambda info: info.name)
def test_no_part_of_a_request_frame_is_empty(info: ApiInfo) -> None:
    """From Python 3.12 on, asyncio's transports never get rid of an empty buffer, and never close because of it."""
    versions = info.request.SCHEMA.versions
    for version in range(versions.low, versions.high + 1):
        for client_id in ("c", "", None):
            assert all(len(part) for part in request_frame(info.request(), version, 7, client_id))


def test_no_part_of_a_large_request_frame_is_empty() -> None:
    topics = [m.FetchRequest.FetchTopic(topic="t" * 200, partitions=[m.FetchRequest.FetchPartition()])] * 500
    frame = request_frame(m.FetchRequest(topics=topics), 12, 7, "")
    assert len(frame) > 1
    assert all(len(part) for part in frame)


def test_a_large_batch_is_not_copied_into_its_request_frame() -> None:
    batch = bytes(100_000)
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = request_frame(m.ProduceRequest(topic_data=[topic]), 9, 7, "c")
    assert any(part is batch for part in frame)
    assert struct.unpack(">i", b"".join(frame)[:4])[0] == sum(map(len, frame)) - 4


def test_tagged_fields_of_a_header_are_skipped() -> None:
    plain = kio_header(HeaderV2, ApiKey.METADATA, 9, "c")
    header, body = parse_request_header(memoryview(plain[:-1] + b"\x02\x00\x02ab\x07\x00" + b"body"))
    assert header.client_id == "c"
    assert body == len(plain) + 6


def test_an_unknown_api_still_gives_its_header() -> None:
    header, _ = parse_request_header(memoryview(struct.pack(">hhih", 999, 0, 5, -1)))
    assert header == RequestHeader(999, 0, 5, None)


@pytest.mark.parametrize("version", [8, 9])
def test_a_header_cut_short_at_any_byte_is_malformed(version: int) -> None:
    data = kio_header(HeaderV2 if version == 9 else HeaderV1, ApiKey.METADATA, version, "client")
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            parse_request_header(memoryview(data[:size]))


@pytest.mark.parametrize(
    "tags", [b"\x01\x00\x7f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80", b"\x01\x00\xff\xff\xff\xff\x0f"]
)
def test_tagged_fields_longer_than_the_message_are_malformed(tags: bytes) -> None:
    plain = kio_header(HeaderV2, ApiKey.METADATA, 9, "c")
    with pytest.raises(MalformedMessage):
        parse_request_header(memoryview(plain[:-1] + tags))


def test_a_client_id_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        parse_request_header(memoryview(struct.pack(">hhih", 3, 1, 5, 2) + b"\xff\xff"))


@pytest.mark.parametrize(
    ("key", "version", "header"),
    [
        (ApiKey.HEARTBEAT, 3, b"\0\0\0\x07"),
        (ApiKey.HEARTBEAT, 4, b"\0\0\0\x07\0"),
        (ApiKey.API_VERSIONS, 4, b"\0\0\0\x07"),
    ],
)
def test_a_response_frame_starts_with_the_header_of_its_version(key: ApiKey, version: int, header: bytes) -> None:
    frame = b"".join(response_frame([b"body", memoryview(b"more")], key, version, 7))  # type: ignore[arg-type]
    assert frame == struct.pack(">i", len(header) + 8) + header + b"bodymore"


def test_a_response_frame_counts_parts_that_are_not_bytes() -> None:
    class FileRange:
        def __len__(self) -> int:
            return 1000

    partition = m.FetchResponse.PartitionData(records=FileRange())
    topic = m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    parts = encode_parts(m.FetchResponse(responses=[topic]), 12)
    frame = response_frame(parts, ApiKey.FETCH, 12, 1)
    head = frame[0]
    assert isinstance(head, bytes)
    sizes = sum(len(part) for part in frame)  # type: ignore[arg-type, misc]
    assert struct.unpack(">i", head[:4])[0] == sizes - 4


def test_skip_tags_returns_the_position_behind_them() -> None:
    assert skip_tags(memoryview(b"x\x00y"), 1) == 2
    assert skip_tags(memoryview(b"\x01\x05\x02abz"), 0) == 5


def test_frames_join_into_a_stream() -> None:
    stream = io.BytesIO()
    for correlation_id in (1, 2):
        stream.writelines(request_frame(m.ApiVersionsRequest(), 0, correlation_id, None))
    assert stream.getvalue().count(b"\x00\x12\x00\x00") == 2


# Frames in the bytes that come


def fed(buffer: FrameBuffer, data: bytes, step: int) -> list[bytes]:
    """The frames that are found when at most `step` bytes come at a time."""
    found: list[bytes] = []
    while data:
        room = buffer.get_buffer()
        count = min(step, len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        found += map(bytes, buffer.received(count))
    return found


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize("step", [1, 3, 1000, 65_536, 1 << 20])
def test_frames_are_found_however_their_bytes_come(step: int) -> None:
    sizes = [4, 5, 100, 65_531, 65_532, 65_533, 70_000, 4, 200_000, 30_000, 30_000, 30_000, 7]
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert fed(FrameBuffer(), b"".join(map(framed, payloads)), step) == payloads


def test_a_frame_is_not_overwritten_by_those_behind_it() -> None:
    buffer = FrameBuffer()
    kept: list[memoryview] = []
    for number in range(5):
        data = framed(bytes([number]) * 1000)
        buffer.get_buffer()[: len(data)] = data
        kept += buffer.received(len(data))
    assert [bytes(frame) for frame in kept] == [bytes([number]) * 1000 for number in range(5)]


def test_a_large_frame_is_received_into_a_buffer_of_its_own_size() -> None:
    buffer = FrameBuffer()
    buffer.get_buffer()[:10] = struct.pack(">i", 1 << 20) + b"begins"
    assert list(buffer.received(10)) == []
    assert len(buffer.get_buffer()) == (1 << 20) - 6


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 0x48545450])
def test_a_size_that_cannot_be_is_a_violation(size: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"{size} bytes: is it a Kafka broker"):
        fed(FrameBuffer(max_bytes=1000), struct.pack(">i", size) + b"xxxx", 8)


def test_frames_before_a_violation_are_given() -> None:
    buffer = FrameBuffer()
    data = framed(b"good") + struct.pack(">i", -1)
    buffer.get_buffer()[: len(data)] = data
    frames = buffer.received(len(data))
    assert bytes(next(frames)) == b"good"
    with pytest.raises(ProtocolViolation):
        next(frames)


@pytest.mark.parametrize("record", [b"\x15\x03\x03\0\x02", b"\x16\x03\x03\0\x7a"])
def test_tls_is_recognised_at_the_start_only(record: bytes) -> None:
    with pytest.raises(LooksLikeTls):
        fed(FrameBuffer(), record, 5)
    buffer = FrameBuffer()
    assert fed(buffer, framed(b"good"), 8) == [b"good"]
    assert fed(buffer, record, 5) == []  # the start of a large frame
