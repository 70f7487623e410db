"""Traces across records: spans of send, poll and handlers, exported by OTLP to a receiver in this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from penstock.client import Consumer, Producer, ShareConsumer, sync
from penstock.client.admin import Admin, ResourceType
from penstock.client.share_worker import Reject
from penstock.client.tracing import Tracing, process, span_links
from penstock.client.types import ConsumerRecord
from penstock.spark.control import Attempt
from penstock.spark.worker import Job, run_worker
from penstock.testing import Broker
from penstock.wire.errors import MessageTooLarge
from tests.otlp_receiver import Receiver, attributes, otlp_receiver

WAIT_MS = 30_000
_PROVIDER = TracerProvider()
trace.set_tracer_provider(_PROVIDER)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as it:
        processor = SimpleSpanProcessor(OTLPSpanExporter(f"{it.address}/v1/traces"))
        _PROVIDER._active_span_processor._span_processors = (processor,)
        yield it
        _PROVIDER._active_span_processor._span_processors = ()
        processor.shutdown()


def named(receiver: Receiver, name: str) -> list[Any]:
    return [span for span in receiver.spans() if span.name == name]


def linked(span: Any) -> set[bytes]:
    return {link.span_id for link in span.links}


async def test_a_record_carries_its_trace_from_send_to_poll(broker: Broker, receiver: Receiver) -> None:
    broker.create_topic("orders", 1)
    tracer = trace.get_tracer("test")
    async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_tracing=True) as producer:
        with tracer.start_as_current_span("request"):
            await producer.send_and_wait("orders", b"x", headers=[("mine", b"1"), ("traceparent", b"of another")])
    async with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", enable_tracing=True
    ) as consumer:
        consumer.assign([("orders", 0)])
        (record,) = await consumer.poll(WAIT_MS)
    headers = dict(record.headers)
    assert headers["mine"] == b"1"
    assert [name for name, _ in record.headers].count("traceparent") == 1
    (request,), (sent,), (polled,) = (named(receiver, name) for name in ("request", "send orders", "poll orders"))
    assert sent.parent_span_id == request.span_id
    assert (headers["traceparent"] or b"").split(b"-")[1:3] == [
        sent.trace_id.hex().encode(),
        sent.span_id.hex().encode(),
    ]
    assert attributes(sent)["messaging.kafka.offset"] == 0
    assert linked(polled) == {sent.span_id}
    assert attributes(polled)["messaging.batch.message_count"] == 1


async def test_each_call_of_a_handler_links_to_the_send_of_its_record(broker: Broker, receiver: Receiver) -> None:
    broker.create_topic("jobs", 1)
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_configs(ResourceType.GROUP, "workers", {"share.auto.offset.reset": "earliest"})
    async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_tracing=True) as producer:
        await producer.send_and_wait("jobs", b"good")
        await producer.send_and_wait("jobs", b"bad")
    stop, inside = asyncio.Event(), []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        if record.value == b"bad":
            stop.set()
            raise Reject("never")

    async with ShareConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="workers", enable_tracing=True
    ) as worker:
        worker.subscribe("jobs")
        await asyncio.wait_for(worker.run(handle, stop=stop), 60)
    sent, processed = named(receiver, "send jobs"), named(receiver, "process jobs")
    assert [linked(span) for span in processed] == [{span.span_id} for span in sent]
    assert [int.from_bytes(span.span_id, "big") for span in processed] == inside
    assert [span.status.code for span in processed] == [0, 2]
    assert attributes(processed[0])["penstock.delivery_count"] == 1
    assert attributes(processed[0])["messaging.consumer.group.name"] == "workers"


async def test_a_task_on_spark_runs_its_handlers_inside_spans_that_link_to_their_records(
    broker: Broker, receiver: Receiver
) -> None:
    broker.create_topic("images", 1)
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_configs(ResourceType.GROUP, "resize", {"share.auto.offset.reset": "earliest"})
    async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_tracing=True) as producer:
        await producer.send_and_wait("images", b"x")
    inside = []

    def handle(record: object) -> None:  # runs in a thread
        inside.append(trace.get_current_span().get_span_context().span_id)

    job = Job(
        bootstrap_servers=broker.bootstrap_servers,
        topics=("images",),
        group="resize",
        concurrency=1,
        until_empty=True,
        tracing=True,
    )
    done = await asyncio.wait_for(run_worker(job, handle, Attempt(0, 0)), 60)
    assert done.accepted == 1
    (sent,), (processed,) = named(receiver, "send images"), named(receiver, "process images")
    assert linked(processed) == {sent.span_id}
    assert inside == [int.from_bytes(processed.span_id, "big")]


def test_the_span_of_the_thread_that_sends_is_the_parent(broker: Broker, receiver: Receiver) -> None:
    broker.create_topic("blocking", 1)
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, enable_tracing=True) as producer:
        deliveries = []
        for name in ("first", "second"):
            with trace.get_tracer("test").start_as_current_span(name):
                deliveries.append(producer.send("blocking", name))
        for delivery in deliveries:
            delivery.result(60)
    parents = [span.parent_span_id for span in named(receiver, "send blocking")]
    assert parents == [named(receiver, name)[0].span_id for name in ("first", "second")]


async def test_a_record_that_cannot_be_sent_ends_its_span_with_the_error(broker: Broker, receiver: Receiver) -> None:
    broker.create_topic("narrow", 1)
    async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_tracing=True) as producer:
        with pytest.raises(MessageTooLarge):
            await producer.send("narrow", bytes(2 << 20))
    (span,) = named(receiver, "send narrow")
    assert span.status.code == 2


def test_what_a_program_does_with_a_record_can_be_a_span(receiver: Receiver) -> None:
    headers = ((("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),)
    record = ConsumerRecord("orders", 0, 5, 0, 0, None, b"x", headers)
    with pytest.raises(KeyError), process(record, "billing"):
        raise KeyError("on purpose")
    (span,) = named(receiver, "process orders")
    assert linked(span) == {bytes.fromhex("b7ad6b7169203331")}
    assert span.status.code == 2


def test_headers_that_hold_no_context_make_no_link() -> None:
    assert span_links([(), (("traceparent", b"\xff"),), (("traceparent", None),)]) == []
    many = [(("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)] * 1_000
    assert len(span_links(many)) == 128


def test_a_poll_that_found_nothing_makes_no_span(receiver: Receiver) -> None:
    Tracing("client").polled([], 1)
    assert receiver.spans() == []


def test_a_client_without_tracing_does_not_import_opentelemetry() -> None:
    program = (
        "import sys, asyncio; from penstock.client import Producer, Consumer, ShareConsumer\n"
        "async def make(): Producer(); Consumer(); ShareConsumer(group_id='g')\n"
        "asyncio.run(make()); assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_tracing_without_opentelemetry_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(Exception, match=r"pip install 'penstock\[otel\]'"):
        Tracing("client")
