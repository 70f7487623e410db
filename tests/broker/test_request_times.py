"""Where the time of requests goes, measured from outside and with a clock of our own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.histogram import BOUNDS_MS
from penstock.broker.request_times import RequestTimes
from penstock.broker.requests import NO_RESPONSE
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.handlers.records import batch, produce
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire

NAME = "kafka_network_requestmetrics_"


class Rig:
    """Requests that take as long as is said."""

    def __init__(self, slow_ms: int = -1) -> None:
        self.now = 100.0
        self.times = RequestTimes(lambda: self.now, lambda: self.now, lambda: slow_ms)

    def request(self, key: ApiKey) -> Any:
        connection = SimpleNamespace(peer_host="10.0.0.1")
        return SimpleNamespace(
            api_key=key,
            api_version=9,
            began=self.now,
            handled=self.now,
            stands_for=0,
            client_id="c\n",
            connection=connection,
        )

    def handled(self, request: Any, answer: object) -> Any:
        """As the dispatcher does when a handler has returned."""
        figures = self.times.of(request.api_key)
        figures.versions[request.api_version] += 1
        request.handled = self.now
        return self.times.handled(figures, request, answer) if self.now >= figures.next_sample else None

    def seconds(self, key: ApiKey) -> dict[str, float]:
        figures = self.times.of(key)
        parts = {name: getattr(figures, name) for name in ("total", "local", "remote", "disk", "send")}
        return {name: round(each.seconds, 6) for name, each in parts.items() if each.count}


@pytest.mark.parametrize(("key", "part"), [(ApiKey.FETCH, "remote"), (ApiKey.PRODUCE, "disk")])
def test_the_time_of_a_request_that_waits_is_split(key: ApiKey, part: str) -> None:
    rig = Rig()
    request = rig.request(key)
    rig.now += 1
    assert rig.handled(request, object()) is None
    rig.now += 2
    mark = rig.times.answered(request)
    assert mark is not None
    rig.now += 4
    rig.times.sent([mark])
    assert rig.seconds(key) == {"local": 1, part: 2, "send": 4, "total": 7}


def test_a_request_without_a_response_ends_with_its_handler() -> None:
    rig = Rig()
    request = rig.request(ApiKey.PRODUCE)
    rig.now += 1
    assert rig.handled(request, NO_RESPONSE) is None
    assert rig.seconds(ApiKey.PRODUCE) == {"local": 1, "total": 1}


def test_of_many_requests_some_are_timed_and_stand_for_the_others() -> None:
    rig = Rig()
    for _ in range(1000):
        request = rig.request(ApiKey.METADATA)
        rig.now += 0.0001
        mark = rig.handled(request, m.MetadataResponse())
        if mark is not None:
            rig.times.sent([mark])
    figures = rig.times.of(ApiKey.METADATA)
    assert figures.versions[9] == 1000
    assert 950 < figures.total.count == figures.stood_for <= 1000
    assert figures.total.seconds == pytest.approx(figures.total.count * 0.0001)


@pytest.mark.parametrize("slow_ms", [0, 3, 4, 50])
def test_no_slow_request_is_missed_however_often_times_are_taken(
    slow_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(slow_ms)
    for _ in range(3):
        for seconds in (0.00001, max(0.0011, (slow_ms + 0.1) / 1000), 0.00001):
            request = rig.request(ApiKey.METADATA)
            rig.now += seconds
            rig.handled(request, m.MetadataResponse())
    assert len(caplog.records) == 3


def test_the_answer_to_a_request_whose_handler_has_not_returned_is_not_timed() -> None:
    rig = Rig()
    request = rig.request(ApiKey.PRODUCE)
    rig.now += 1
    assert rig.times.answered(request) is None
    rig.handled(request, object())
    assert rig.seconds(ApiKey.PRODUCE) == {"local": 1}


@pytest.mark.parametrize(("slow_ms", "is_logged"), [(-1, False), (999, True), (1001, False)])
def test_a_slow_request_is_logged_with_who_sent_it(
    slow_ms: int, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(slow_ms)
    request = rig.request(ApiKey.METADATA)
    rig.now += 1
    rig.handled(request, m.MetadataResponse())
    expected = r"slow request: Metadata version 9 of client 'c\n' at 10.0.0.1 took 1000.0 ms"
    assert [record.getMessage() for record in caplog.records] == ([expected] if is_logged else [])


def test_a_long_poll_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(slow_ms=10)
    request = rig.request(ApiKey.FETCH)
    rig.handled(request, object())
    rig.now += 30
    rig.times.answered(request)
    assert caplog.records == []


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0", "penstock.acks.all.flush": "true"}) as it:
        it.create_topic("orders")
        yield it


def test_requests_errors_and_times_of_a_broker_are_told(broker: Broker) -> None:
    wire = Wire(broker.port)
    for _ in range(3):
        produce(wire, "orders", batch(b"a"), acks=-1)
        time.sleep(0.0045)  # so that the time of each is taken
    wire.ask(m.DescribeGroupsRequest(groups=["none"]), m.DescribeGroupsResponse, 6)
    produce(wire, "orders", batch(b"a"), partition=7)
    found = figures(broker)
    wire.close()
    requests = {name: value for name, value in found.items() if name.startswith(NAME + "requests_total")}
    produced = sum(value for name, value in requests.items() if 'request="Produce"' in name)
    assert produced == 4
    assert found[NAME + 'errors_total{request="Produce",error="UNKNOWN_TOPIC_OR_PARTITION"}'] == 1
    assert found["kafka_server_brokertopicmetrics_totalproducerequests_total"] == 4
    assert found["kafka_server_brokertopicmetrics_failedproducerequests_total"] == 1
    for part in ("totaltimems", "localtimems", "responsesendtimems"):
        assert found[NAME + part + '_count{request="Produce"}'] == 4
        assert found[NAME + part + '_bucket{request="Produce",le="+Inf"}'] == 4
    # Of requests that come faster than they are sampled one stands for the others.
    assert 1 <= found['penstock_request_disk_time_ms_count{request="Produce"}'] <= 3
    total = found[NAME + 'totaltimems_sum{request="Produce"}']
    parts = (NAME + "localtimems", "penstock_request_disk_time_ms", NAME + "responsesendtimems")
    assert total == pytest.approx(sum(found[part + '_sum{request="Produce"}'] for part in parts), rel=0.01)


def test_nothing_is_measured_where_nobody_looks() -> None:
    with Broker() as broker:
        assert broker._running().parts.dispatcher.times is None
        assert not [name for name in figures(broker) if name.startswith((NAME, "process_"))]


def _above(found: dict[str, float], request: str, bound_ms: float, name: str) -> int:
    """How many requests a histogram has above a bound."""
    labels = f'{{request="{request}"'
    below = found[f'{NAME}{name}_bucket{labels},le="{bound_ms}"}}']
    return int(found[f"{NAME}{name}_count{labels}}}"] - below)


def test_the_histograms_agree_with_what_the_client_measured(broker: Broker) -> None:
    wire = Wire(broker.port)
    produced, fetched = [], []
    for _ in range(100):
        time.sleep(0.0045)  # so that the time of each is taken
        began = time.perf_counter()
        produce(wire, "orders", batch(b"x"))
        produced.append((time.perf_counter() - began) * 1000)
    for wait_ms in [10] * 6 + [150] * 4:
        began = time.perf_counter()
        part = m.FetchRequest.FetchPartition(0, fetch_offset=100, partition_max_bytes=1 << 20)
        topic = m.FetchRequest.FetchTopic("orders", partitions=[part])
        body = m.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        wire.ask(body, m.FetchResponse, 12)
        fetched.append((time.perf_counter() - began) * 1000)
    found = figures(broker)
    wire.close()
    for request, times in (("Produce", produced), ("Fetch", fetched)):
        labels = f'{{request="{request}"}}'
        assert found[f"{NAME}totaltimems_count{labels}"] == len(times)
        # What passes before the answer is sent passes for the client too, request by request and so for every bound.
        # (The client may have the answer before the broker notes that it was sent.)
        wait = "remotetimems" if request == "Fetch" else "localtimems"
        assert 0 < found[f"{NAME}{wait}_sum{labels}"] <= sum(times)
        assert found[f"{NAME}{wait}_sum{labels}"] <= found[f"{NAME}totaltimems_sum{labels}"]
        for bound in BOUNDS_MS:
            assert _above(found, request, bound, wait) <= sum(time_ms > bound for time_ms in times)
    # And a wait that the client asked for is one that the broker counts.
    assert _above(found, "Fetch", 131.072, "remotetimems") >= 4
    assert found[f'{NAME}remotetimems_sum{{request="Fetch"}}'] >= 6 * 10 + 4 * 150 - 10
