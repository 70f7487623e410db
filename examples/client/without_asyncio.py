"""The same client for programs without asyncio: the same names, calls that block."""

import os

from penstock.client.sync import Consumer, Producer

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")

with Producer(bootstrap_servers=BOOTSTRAP) as producer:
    deliveries = [producer.send("example-plain", f"line {number}") for number in range(5)]
    last_offset = deliveries[-1].result().offset
    print("last offset:", last_offset)

with Consumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest") as consumer:
    consumer.assign([("example-plain", 0)])
    for record in consumer:
        print(record.offset, record.value)
        if record.offset == last_offset:
            break
