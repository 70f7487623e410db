"""`workers.py WHAT BOOTSTRAP TOPIC name=value ...`: share consumers at work, timed. Prints one JSON object.

  parallel  `consumers` workers with `work_ms` of work per record for `seconds`: the share of the ideal rate they reach
  drain     one consumer takes `records` records as fast as it can (`mode` implicit or explicit)
  first     from the subscription of a new group to its first record
  waiting   from produce to delivery at a consumer that waits, and from a release to the delivery after it

The topic has the records already, except for `waiting`; the group, named like the topic, reads from the start.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

JOIN_S = 8.0  # everyone has joined by then, on either broker
TIMEOUT_S = 60.0


class Bench:
    def __init__(self, bootstrap: str, topic: str, options: dict[str, str]) -> None:
        self.bootstrap, self.topic, self.options = bootstrap, topic, options

    def consumer(self, mode: str, max_records: int, group: str = "") -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group or self.topic,
                "share.acknowledgement.mode": mode,
                "max.poll.records": max_records,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        return consumer

    def parallel(self) -> dict[str, float]:
        consumers, work_ms = int(self.options["consumers"]), float(self.options["work_ms"])
        seconds = float(self.options["seconds"])
        counts = [0] * consumers
        stop = threading.Event()
        begins = time.monotonic() + JOIN_S

        def work(number: int) -> None:
            consumer = self.consumer("explicit", 20)
            while not stop.is_set():
                for message in consumer.poll(0.5):
                    if message.error():
                        continue
                    time.sleep(work_ms / 1000)
                    consumer.acknowledge(message)
                    counts[number] += begins <= time.monotonic() < begins + seconds
            consumer.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(consumers)]
        for thread in threads:
            thread.start()
        time.sleep(JOIN_S + seconds)
        stop.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
        rate, ideal = sum(counts) / seconds, consumers * 1000 / work_ms
        return {"value": 100 * rate / ideal, "records_per_s": rate, "idlest": min(counts), "busiest": max(counts)}

    def drain(self) -> dict[str, float]:
        records, mode = int(self.options["records"]), self.options["mode"]
        consumer = self.consumer(mode, 500)
        taken, began, deadline = 0, 0.0, time.monotonic() + TIMEOUT_S * 2
        while taken < records and time.monotonic() < deadline:
            for message in consumer.poll(1.0):
                if message.error():
                    continue
                began = began or time.monotonic()
                taken += 1
                if mode == "explicit":
                    consumer.acknowledge(message)
        seconds = time.monotonic() - began
        consumer.close()
        if taken < records:
            sys.exit(f"only {taken} of {records} records came")
        return {"value": taken / seconds}

    def first(self) -> dict[str, float]:
        began = time.monotonic()
        consumer = self.consumer("implicit", 500)
        while time.monotonic() - began < TIMEOUT_S:
            if any(not message.error() for message in consumer.poll(0.5)):
                seconds = time.monotonic() - began
                consumer.close()
                return {"value": seconds}
        sys.exit("no record came")

    def waiting(self) -> dict[str, float]:
        count = int(self.options["records"])
        consumer = self.consumer("explicit", 1)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "acks": 1})
        delivered: list[float] = []
        redelivered: list[float] = []
        consumer.acknowledge(self._one(consumer, producer))  # joins, opens the session
        for _ in range(count):
            began = time.perf_counter()
            message = self._one(consumer, producer)
            delivered.append((time.perf_counter() - began) * 1000)
            consumer.acknowledge(message, AcknowledgeType.RELEASE)
            began = time.perf_counter()
            message = self._poll(consumer)
            redelivered.append((time.perf_counter() - began) * 1000)
            consumer.acknowledge(message)
        consumer.close()
        cuts, again = statistics.quantiles(delivered, n=100), statistics.quantiles(redelivered, n=100)
        return {"value": cuts[98], "p50_ms": cuts[49], "released_p50_ms": again[49], "released_p99_ms": again[98]}

    def _one(self, consumer: ShareConsumer, producer: Producer):  # type: ignore[no-untyped-def]
        producer.produce(self.topic, b"x" * 100)
        producer.poll(0)
        return self._poll(consumer)

    def _poll(self, consumer: ShareConsumer):  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for message in consumer.poll(1.0):
                if not message.error():
                    return message
        sys.exit("no record came")


def main() -> None:
    what, bootstrap, topic, *pairs = sys.argv[1:]
    bench = Bench(bootstrap, topic, dict(pair.split("=", 1) for pair in pairs))
    jobs = {"parallel": bench.parallel, "drain": bench.drain, "first": bench.first, "waiting": bench.waiting}
    print(json.dumps(jobs[what]()))


if __name__ == "__main__":
    main()
