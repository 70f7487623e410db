"""A work queue with enrichment and dead letters: every order is handled on its own, by many workers at once.

A lookup that fails for now raises, so the order is released and comes again, to whichever worker is free. What can
never be handled, or was tried too often, goes to the topic `orders-dead` with the reason in a header.
"""

from __future__ import annotations

import json
import os

from penstock.client import ConsumerRecord
from penstock.client.sync import Producer
from penstock.spark.pipelines import Pipeline, QueueSink

MAX_ATTEMPTS = 4


class Enrich:
    """`open` and `close` are called once in each task, the object itself once for each record."""

    def open(self) -> None:
        self._producer = Producer(bootstrap_servers=os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")).start()

    def close(self) -> None:
        self._producer.close()

    def __call__(self, record: ConsumerRecord[bytes, bytes]) -> None:
        try:
            order = json.loads(record.value or b"")
            order["customer"] = {"id": order["customer"], "country": country_of(order["customer"])}
        except (ValueError, KeyError, TypeError) as error:
            self._bury(record, f"not an order: {error!r}")
        except LookupError as error:
            if record.delivery_count < MAX_ATTEMPTS:
                raise
            self._bury(record, f"given up after {record.delivery_count} attempts: {error}")
        else:
            # The record is accepted when this returns; so the result must be in the log before.
            self._producer.send("orders-enriched", json.dumps(order), key=record.key).result()

    def _bury(self, record: ConsumerRecord[bytes, bytes], reason: str) -> None:
        place = f"{record.topic}-{record.partition} offset {record.offset}"
        headers = [("reason", reason.encode()), ("from", place.encode())]
        self._producer.send("orders-dead", record.value, key=record.key, headers=headers).result()


def country_of(customer: str) -> str:
    """Where a call to another service would be; it raises LookupError when that service does not answer."""
    return "DE" if customer.endswith(("1", "3", "5", "7", "9")) else "FR"


pipeline = Pipeline(
    name="enrich orders",
    topics=["orders"],
    sink=QueueSink("enrich-orders", Enrich(), parallelism=16),
)
