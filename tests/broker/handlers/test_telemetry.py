"""GetTelemetrySubscriptions and PushTelemetry on the wire."""

from __future__ import annotations

from penstock.records.codecs import Codec, compress
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire


def subscribe(wire: Wire) -> m.GetTelemetrySubscriptionsResponse:
    return wire.ask(m.GetTelemetrySubscriptionsRequest(), m.GetTelemetrySubscriptionsResponse, 0)


def push(wire: Wire, to: m.GetTelemetrySubscriptionsResponse, data: bytes, codec: int = 0) -> int:
    request = m.PushTelemetryRequest(
        client_instance_id=to.client_instance_id,
        subscription_id=to.subscription_id,
        compression_type=codec,
        metrics=data,
    )
    return wire.ask(request, m.PushTelemetryResponse, 0).error_code


def test_a_subscription_says_what_may_be_pushed_and_how(wire: Wire) -> None:
    answer = subscribe(wire)
    assert answer.error_code == ErrorCode.NONE
    assert any(answer.client_instance_id)
    assert answer.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, 1 << 20)
    assert answer.delta_temporality
    assert answer.requested_metrics == []


def test_what_is_pushed_is_taken_once_per_interval(wire: Wire) -> None:
    to = subscribe(wire)
    assert push(wire, to, b"") == ErrorCode.NONE
    assert push(wire, to, b"") == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_bomb_is_too_large(wire: Wire) -> None:
    assert push(wire, subscribe(wire), compress(Codec.ZSTD, bytes(64 << 20)), 4) == ErrorCode.TELEMETRY_TOO_LARGE


def test_garbage_is_an_invalid_record(wire: Wire) -> None:
    assert push(wire, subscribe(wire), b"garbage") == ErrorCode.INVALID_RECORD
