"""`members.py PROTOCOL MEMBERS PARTITIONS BOOTSTRAP TOPIC`: a group of consumers, timed until it has settled.

Prints one JSON object: the seconds until all partitions were assigned once each, and the same after one member left.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import Consumer

TIMEOUT_S = 90.0


class Crowd:
    def __init__(self, protocol: str, partitions: int, bootstrap: str, topic: str) -> None:
        self.partitions, self.topic = partitions, topic
        self.config = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{protocol}",
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if protocol == "classic":
            self.config["partition.assignment.strategy"] = "cooperative-sticky"
        self.lock = threading.Condition()
        self.held: dict[int, set[int]] = {}
        self.leaving: set[int] = set()

    def member(self, number: int) -> None:
        consumer = Consumer(self.config)
        with self.lock:
            self.held[number] = set()
        consumer.subscribe([self.topic])
        while number not in self.leaving:
            consumer.poll(0.02)
            mine = {part.partition for part in consumer.assignment()}
            with self.lock:
                if mine != self.held[number]:
                    self.held[number] = mine
                    self.lock.notify_all()
        consumer.close()
        with self.lock:
            del self.held[number]
            self.lock.notify_all()

    def settled(self, members: int) -> bool:
        held = [partition for each in self.held.values() for partition in each]
        everyone = len(self.held) == members and all(self.held.values())
        return everyone and sorted(held) == list(range(self.partitions))

    def wait(self, members: int) -> float:
        began = time.monotonic()
        with self.lock:
            if not self.lock.wait_for(lambda: self.settled(members), TIMEOUT_S):
                sizes = [len(held) for held in self.held.values()]
                sys.exit(f"not settled after {TIMEOUT_S:.0f} s: {sum(sizes)} partitions at {len(sizes)} members")
        return time.monotonic() - began


def main() -> None:
    protocol, members, partitions, bootstrap, topic = sys.argv[1:]
    crowd = Crowd(protocol, int(partitions), bootstrap, topic)
    count = int(members)
    threads = [threading.Thread(target=crowd.member, args=(number,), daemon=True) for number in range(count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    crowd.wait(count)
    settled_s = time.monotonic() - began
    time.sleep(1)
    began = time.monotonic()
    crowd.leaving.add(0)
    crowd.wait(count - 1)
    left_s = time.monotonic() - began
    print(json.dumps({"settled_s": settled_s, "left_s": left_s}))
    crowd.leaving.update(range(count))
    for thread in threads:
        thread.join(20)


if __name__ == "__main__":
    main()
