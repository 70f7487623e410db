"""Dead letters of a queue: read, put back once, and found when their records are gone from the log."""

from __future__ import annotations

import pytest

from penstock.cli.main import run as run_command
from penstock.client.admin import Admin, ResourceType
from penstock.client.consumer import Consumer
from penstock.client.dead_letters import REDRIVEN, letter_of, read_letters, redrive
from penstock.client.producer import Producer
from penstock.client.share_acknowledgements import AcknowledgeType
from penstock.client.share_consumer import ShareConsumer
from penstock.client.types import ConsumerRecord
from penstock.testing.broker import Broker


async def rejected(broker: Broker, admin: Admin, *, copies: bool) -> None:
    """Three records, each rejected, whose letters have copies or not."""
    broker.create_topic("jobs")
    broker.create_topic("dlq.jobs", errors_deadletterqueue_group_enable="true")
    configs = {
        "errors.deadletterqueue.topic.name": "dlq.jobs",
        "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
        "share.auto.offset.reset": "earliest",
    }
    await admin.alter_configs(ResourceType.GROUP, "workers", configs)
    async with Producer(broker.client_settings()) as producer:
        for number in range(3):
            await producer.send_and_wait("jobs", f"v{number}", key=f"k{number}", headers=[("h", b"1")])
    async with ShareConsumer(
        broker.client_settings(), group_id="workers", share_acknowledgement_mode="explicit"
    ) as consumer:
        consumer.subscribe(["jobs"])
        seen = 0
        while seen < 3:
            for record in await consumer.poll(timeout_ms=20_000):
                consumer.acknowledge(record, AcknowledgeType.REJECT)
                seen += 1
            await consumer.commit()


@pytest.mark.parametrize("copies", [False, True])
async def test_records_come_back_with_key_value_and_headers(copies: bool) -> None:
    with Broker() as broker:
        settings = broker.client_settings()
        async with (
            Admin(settings) as admin,
            Consumer(settings, auto_offset_reset="earliest") as consumer,
            Producer(settings) as producer,
        ):
            await rejected(broker, admin, copies=copies)
            letters, more = await read_letters(admin, consumer, "workers", "dlq.jobs", limit=2)
            assert ([letter.record_offset for letter in letters], more) == ([0, 1], True)
            if copies:
                await admin.delete_records({("jobs", 0): 1})  # the first record lives on in its letter only
            outcome = await redrive(admin, consumer, producer, "workers", "dlq.jobs")
            assert (outcome.back, outcome.gone) == (3, 0)
            assert (await redrive(admin, consumer, producer, "workers", "dlq.jobs")).back == 0
            consumer.assign([("jobs", 0)])
            consumer.seek(("jobs", 0), 3)
            back: list[ConsumerRecord[bytes, bytes]] = []
            while len(back) < 3:
                back += await consumer.poll(20_000)
            assert [(r.key, r.value) for r in back] == [(b"k%d" % n, b"v%d" % n) for n in range(3)]
            assert dict(back[1].headers)["h"] == b"1"
            assert (dict(back[1].headers)[REDRIVEN] or b"").startswith(b"dlq.jobs-")


async def test_a_record_that_is_nowhere_any_more_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        async with Admin(broker.client_settings()) as admin:
            await rejected(broker, admin, copies=False)
            await admin.delete_records({("jobs", 0): 2})
        import asyncio

        line = ["share", "redrive", "workers", "--bootstrap", broker.bootstrap_servers]
        assert await asyncio.to_thread(run_command, line) == 0
    said = capsys.readouterr()
    assert "1 records of workers are back" in said.out + said.err
    assert "2 are nowhere any more" in said.out + said.err


def test_what_is_no_letter_of_the_queue_is_left_alone() -> None:
    def record(*headers: tuple[str, bytes | None]) -> ConsumerRecord[bytes, bytes]:
        return ConsumerRecord("dlq", 0, 1, 2, 0, None, None, headers, 0, 0)

    whole = {"topic": b"t", "partition": b"0", "offset": b"5", "group": b"g"}
    headers = [(f"__dlq.errors.{name}", value) for name, value in whole.items()]
    letter = letter_of(record(*headers), "g")
    assert letter is not None
    assert letter.record_offset == 5
    assert letter_of(record(*headers), "other") is None
    assert letter_of(record(*headers[:-1]), "g") is None
    assert letter_of(record(*headers[1:], ("__dlq.errors.topic", None), ("__dlq.errors.offset", b"x")), "g") is None
