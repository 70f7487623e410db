"""How long single requests take: `python bench/latency.py HOST PORT TOPIC REQUESTS` prints percentiles as JSON.

One connection, one request at a time, alternately a Produce of one small record (acks=1) and a Fetch of one batch. Both
requests are encoded once and sent over a plain socket, so that the client's share of a latency is next to nothing. It
runs in a process of its own: the harness that draws a progress bar would otherwise be part of the tail.
"""

from __future__ import annotations

import gc
import json
import socket
import statistics
import sys
import time

from penstock.records.builder import build_batch
from penstock.wire import messages as m
from penstock.wire.codec import decode
from penstock.wire.frames import request_frame

# The last versions that name the topic instead of giving its id.
_PRODUCE_VERSION = 12
_FETCH_VERSION = 12
_WARM_UP = 200
_TIMEOUT_S = 30


def main() -> None:
    host, port, topic, requests = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        produce, fetch = produce_request(topic), fetch_request(topic)
        check_produced(exchange(connection, produce))
        check_fetched(exchange(connection, fetch))
        measure(connection, produce, fetch, _WARM_UP)
        gc.disable()
        produced, fetched = measure(connection, produce, fetch, requests)
    print(json.dumps({**percentiles("produce", produced), **percentiles("fetch", fetched)}))


def measure(connection: socket.socket, produce: bytes, fetch: bytes, requests: int) -> tuple[list[float], list[float]]:
    produced, fetched = [], []
    clock = time.perf_counter
    for _ in range(requests):
        began = clock()
        exchange(connection, produce)
        between = clock()
        exchange(connection, fetch)
        produced.append(between - began)
        fetched.append(clock() - between)
    return produced, fetched


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """The body of the answer, from behind its header on."""
    connection.sendall(request)
    answer = connection.recv(65536)
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        more = connection.recv(65536)
        if not more:
            raise SystemExit("the broker closed the connection")
        answer += more
    return answer[9:]


def produce_request(topic: str, size: int = 100) -> bytes:
    batch = bytes(build_batch([(int(time.time() * 1000), None, b"x" * size, [])]))
    data = m.ProduceRequest.PartitionProduceData(index=0, records=batch)
    topics = [m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return b"".join(request_frame(m.ProduceRequest(acks=1, topic_data=topics), _PRODUCE_VERSION, 1, ""))


def fetch_request(topic: str) -> bytes:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [m.FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
    request = m.FetchRequest(max_wait_ms=1000, min_bytes=1, session_epoch=-1, topics=topics)
    return b"".join(request_frame(request, _FETCH_VERSION, 1, ""))


def check_produced(body: bytes) -> None:
    error = decode(m.ProduceResponse, body, _PRODUCE_VERSION).responses[0].partition_responses[0].error_code
    if error:
        raise SystemExit(f"Produce was answered with error {error}")


def check_fetched(body: bytes) -> None:
    answer = decode(m.FetchResponse, body, _FETCH_VERSION)
    if answer.error_code or not answer.responses[0].partitions[0].records:
        raise SystemExit(f"Fetch was answered with error {answer.error_code} or without records")


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=1000)
    return {f"{name}_p50_ms": cuts[499] * 1e3, f"{name}_p99_ms": cuts[989] * 1e3, f"{name}_p999_ms": cuts[998] * 1e3}


if __name__ == "__main__":
    main()
