"""Traces across records, with OpenTelemetry: which request sent a record, who received it, and what became of it.

    producer = Producer(enable_tracing=True)
    worker = ShareConsumer(group_id="resize", enable_tracing=True)

A sent record carries the context of its `send` span in its headers, in the format that OpenTelemetry is set to (W3C's
`traceparent`, unless configured otherwise), so that instrumented clients understand each other. A `poll` span links to
the records that it returned, and a `process` span, one for each call of a handler, to its record. They are linked, not
nested, because a record may be delivered several times, and a poll returns many.

Only OpenTelemetry's API is used here. What becomes of the spans is up to the program, which sets a tracer provider;
`export_spans` sets one that exports by OTLP. Without `enable_tracing` nothing of this is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.client.errors import UsageError
from penstock.client.types import ConsumerRecord, Headers, RecordMetadata

if TYPE_CHECKING:
    from penstock.client.accumulator import Delivery

Record = ConsumerRecord[Any, Any]
GivenHeaders = Sequence[tuple[str, bytes | None]]

_LINKS_MAX = 128  # what OpenTelemetry's SDK keeps of a span's links by default
_SCOPE = "penstock.client"


def _api() -> Any:
    """OpenTelemetry's API. Raises UsageError with what to install."""
    try:
        from opentelemetry import propagate, trace
    except ImportError as error:
        raise UsageError(
            "tracing needs OpenTelemetry, which is not installed: pip install 'penstock[otel]', "
            "or leave enable_tracing off"
        ) from error
    return trace, propagate


class Tracing:
    """The spans of one client."""

    def __init__(self, client_id: str, group_id: str = "") -> None:
        self._trace, self._propagate = _api()
        self._tracer = self._trace.get_tracer(_SCOPE, __version__)
        self._common = {"messaging.system": "kafka", "messaging.client.id": client_id}
        if group_id:
            self._common["messaging.consumer.group.name"] = group_id

    def begin_send(self, topic: str, headers: GivenHeaders | None) -> tuple[Any, Headers]:
        """A span that lasts until the record is delivered, and the headers that carry its context."""
        span = self._tracer.start_span(
            f"send {topic}", kind=self._trace.SpanKind.PRODUCER, attributes=self._attributes("send", "send", topic)
        )
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, context=self._trace.set_span_in_context(span))
        # A record that is passed on with its headers must not carry two contexts.
        others = (header for header in headers or () if header[0] not in carrier)
        return span, (*others, *((name, value.encode()) for name, value in carrier.items()))

    def sent(self, span: Any, delivery: Delivery) -> None:
        delivery.add_done_callback(partial(self._delivered, span))

    def _delivered(self, span: Any, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            place: RecordMetadata = delivery.result()
            span.set_attribute("messaging.destination.partition.id", str(place.partition))
            span.set_attribute("messaging.kafka.offset", place.offset)
            span.end()
        else:
            self.failed(span, error)

    def failed(self, span: Any, error: BaseException) -> None:
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.set_attribute("error.type", type(error).__name__)
        span.end()

    def polled(self, records: Sequence[Record], began_ns: int) -> None:
        """A span for a poll that returned records; polls that found nothing make none."""
        if not records:
            return
        topics = list(dict.fromkeys(record.topic for record in records))
        attributes = self._attributes("poll", "receive", topics[0] if len(topics) == 1 else "")
        attributes["messaging.batch.message_count"] = len(records)
        self._tracer.start_span(
            f"poll {topics[0]}" if len(topics) == 1 else "poll",
            kind=self._trace.SpanKind.CLIENT,
            attributes=attributes,
            links=span_links(record.headers for record in records[:_LINKS_MAX]),
            start_time=began_ns,
        ).end()

    @contextmanager
    def processing(self, record: Record) -> Iterator[None]:
        """A span around what is done with one record; what raises ends it with an error."""
        attributes = self._attributes("process", "process", record.topic)
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        if record.delivery_count:
            attributes["penstock.delivery_count"] = record.delivery_count
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=span_links([record.headers]),
        ):
            yield

    def _attributes(self, name: str, kind: str, topic: str) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {
            **self._common,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
        }
        if topic:
            attributes["messaging.destination.name"] = topic
        return attributes


def span_links(headers: Iterable[Iterable[tuple[str, bytes | None]]]) -> list[Any]:
    """Links to the spans that sent records, from the headers of each; at most 128, which is what SDKs keep.

    For programs that make spans of their own, as in a Spark task that reads a column `headers`.
    """
    trace, propagate = _api()
    from opentelemetry.context import Context

    links: list[Any] = []
    for each in headers:
        if len(links) == _LINKS_MAX:
            break
        carrier = {name: value.decode("latin-1") for name, value in each if value is not None}
        context = trace.get_current_span(propagate.extract(carrier, context=Context()))
        if context.get_span_context().is_valid:
            links.append(trace.Link(context.get_span_context()))
    return links


@contextmanager
def process(record: Record, group_id: str = "") -> Iterator[None]:
    """`with process(record):` around what a program does with a record that `poll` returned makes a span of it."""
    with Tracing("penstock", group_id).processing(record):
        yield


def export_spans(service_name: str) -> None:
    """Export this process' spans by OTLP, unless the program has set a tracer provider already.

    The address and everything else are read from OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, …).
    """
    trace, _ = _api()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def flush_spans() -> None:
    """Export what waits, as before a short process ends."""
    trace, _ = _api()
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush()
