"""GetTelemetrySubscriptions and PushTelemetry (KIP-714).

A client that names no instance id is given one. What is too large, as sent or unpacked, is TELEMETRY_TOO_LARGE, so that
a client goes on pushing; what cannot be read is INVALID_RECORD, as in Kafka, after which a Java client stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Request
from penstock.broker.telemetry import ACCEPTED_CODECS
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.telemetry import Telemetry


class TelemetryHandlers:
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def get_telemetry_subscriptions(
        self, request: Request[m.GetTelemetrySubscriptionsRequest]
    ) -> m.GetTelemetrySubscriptionsResponse:
        try:
            client = self._telemetry.subscribe(request.body.client_instance_id, request.client_id, request.connection)
        except KafkaError as error:
            return m.GetTelemetrySubscriptionsResponse(error_code=error.code)
        return m.GetTelemetrySubscriptionsResponse(
            client_instance_id=client.instance_id,
            subscription_id=client.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=client.interval_ms,
            telemetry_max_bytes=self._telemetry.max_bytes,
            delta_temporality=True,
            requested_metrics=list(client.subscribed),
        )

    def push_telemetry(self, request: Request[m.PushTelemetryRequest]) -> m.PushTelemetryResponse:
        body = request.body
        try:
            self._telemetry.push(
                body.client_instance_id,
                request.client_id,
                request.connection,
                body.subscription_id,
                body.compression_type,
                body.metrics,
                is_terminating=body.terminating,
            )
        except KafkaError as error:
            return m.PushTelemetryResponse(error_code=error.code)
        return m.PushTelemetryResponse()
