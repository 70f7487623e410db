"""Where the time of requests goes: in the handler, waiting for data or for the disk, on the way to the socket.

It is switched on with the metrics. The dispatcher counts a request in the figures of its API and notes in it when it
arrived, or when the one before it on its connection was handled, and when its own handler returned. A request that had
to wait comes to `answered` when its answer is ready. The mark that `handled` and `answered` return travels behind the
parts of the response and comes back to `sent` when the kernel has taken everything that was queued with it.

Requests and errors are counted one by one. Times are taken of at most 250 requests of each API in a second, and each
stands for those that came since the one before it: a busy broker does not become slower by watching itself. A request
whose handler takes longer than it is from one of them to the next is always among them, so none that is slow is missed;
where requests count as slow sooner than that, times are taken more often.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.histogram import Histogram
from penstock.broker.metrics import Metric
from penstock.broker.requests import NO_RESPONSE
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.requests import AnyRequest

log = logging.getLogger("penstock.requests")

_TIMES = "kafka_network_requestmetrics_"

# The requests that wait for records or for other clients; whatever else waits, waits for the disk.
_WAIT_FOR_DATA = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})

_SAMPLE_SECONDS = 0.004
_MAYBE_SLOW_SECONDS = 0.001  # no threshold of slow requests is lower, except for none


class ApiFigures:
    """The figures of one API."""

    __slots__ = (
        "disk",
        "errors",
        "failed",
        "local",
        "name",
        "next_sample",
        "remote",
        "send",
        "stood_for",
        "total",
        "versions",
        "wait",
    )

    def __init__(self, key: int) -> None:
        info = API_TABLE[key]
        self.name = info.name
        self.versions = [0] * (info.max_version + 1)
        self.errors: Counter[int] = Counter()
        self.failed = 0
        self.next_sample = 0.0
        """When the time of the next request is to be taken, at the earliest."""
        self.stood_for = 0
        """Requests that those whose time was taken stand for."""
        self.total = Histogram()
        self.local = Histogram()
        self.remote = Histogram()
        self.disk = Histogram()
        self.send = Histogram()
        self.wait = self.remote if key in _WAIT_FOR_DATA else self.disk

    def take_untimed(self) -> int:
        """How many requests there were since this was last called."""
        requests = sum(self.versions)
        untimed = requests - self.stood_for
        self.stood_for = requests
        return untimed


class _Figures(dict[int, ApiFigures]):
    def __missing__(self, key: int) -> ApiFigures:
        figures = self[key] = ApiFigures(key)
        return figures


Mark = tuple[ApiFigures, int, float, float]
"""Of which API a request is, for how many it stands, when it arrived, and when its response was ready."""


class RequestTimes:
    def __init__(
        self, precise: Callable[[], float], monotonic: Callable[[], float], slow_ms: Callable[[], int]
    ) -> None:
        """`slow_ms` says from when on a request is logged as slow; negative values log none."""
        self._precise = precise
        self._slow_ms = slow_ms
        self._slow = BoundedLog(log, monotonic, "slow requests")
        self._by_api = _Figures()

    def of(self, key: ApiKey, versions: list[int] | None = None) -> ApiFigures:
        """The figures of an API, which may have had no request yet; `versions` is where its requests are counted."""
        figures = self._by_api[key]
        if versions is not None:
            figures.versions = versions
        return figures

    def failed(self, key: int, errors: list[int]) -> None:
        """A response holds errors."""
        figures = self._by_api[key]
        figures.failed += 1
        figures.errors.update(errors)

    def handled(self, figures: ApiFigures, request: AnyRequest, answer: object) -> Mark | None:
        """The handler of a request whose time is to be taken has returned; the mark of its response, if it has
        answered with one."""
        now = request.handled
        took = now - request.began
        figures.next_sample = now + (
            _MAYBE_SLOW_SECONDS if 0 <= self._slow_ms() < _SAMPLE_SECONDS * 1000 else _SAMPLE_SECONDS
        )
        if took >= _MAYBE_SLOW_SECONDS:
            self._check_slow(figures, request, took)
        stands_for = request.stands_for = figures.take_untimed()
        figures.local.add(took, stands_for)
        if isinstance(answer, Message):
            return figures, stands_for, request.began, now
        if answer is NO_RESPONSE:
            figures.total.add(took, stands_for)
        return None

    def answered(self, request: AnyRequest) -> Mark | None:
        """The response to a request that waited is ready."""
        figures = self._by_api[request.api_key]
        now = self._precise()
        waited = now - request.handled
        if figures.wait is figures.disk and waited >= _MAYBE_SLOW_SECONDS:
            self._check_slow(figures, request, now - request.began)
        if not request.stands_for:
            return None
        figures.wait.add(waited, request.stands_for)
        return figures, request.stands_for, request.began, now

    def sent(self, marks: list[Mark]) -> None:
        now = self._precise()
        for figures, stands_for, began, ready in marks:
            figures.send.add(now - ready, stands_for)
            figures.total.add(now - began, stands_for)
        marks.clear()

    def _check_slow(self, figures: ApiFigures, request: AnyRequest, seconds: float) -> None:
        slow_ms = self._slow_ms()
        if 0 <= slow_ms <= seconds * 1000:
            self._slow.warning(
                "slow request: %s version %d of client %r at %s took %.1f ms",
                figures.name,
                request.api_version,
                request.client_id,
                request.connection.peer_host,
                seconds * 1000,
            )

    def metrics(self) -> Iterator[Metric | None]:
        requests = Metric(_TIMES + "requests_total")
        errors = Metric(_TIMES + "errors_total")
        apis = sorted(self._by_api.values(), key=lambda figures: figures.name)
        for figures in apis:
            for version, count in enumerate(figures.versions):
                if count:
                    requests.add(count, figures.name, str(version))
            for code, count in sorted(figures.errors.items()):
                errors.add(count, figures.name, ErrorCode(code).name)
        yield from (requests, errors)
        for name, part in (
            (_TIMES + "totaltimems", "total"),
            (_TIMES + "localtimems", "local"),
            (_TIMES + "remotetimems", "remote"),
            ("penstock_request_disk_time_ms", "disk"),
            (_TIMES + "responsesendtimems", "send"),
        ):
            times = Metric(name)
            for figures in apis:
                histogram: Histogram = getattr(figures, part)
                if histogram.count:
                    times.add_histogram(histogram, figures.name)
                yield None
            yield times
        for name, key in (("produce", ApiKey.PRODUCE), ("fetch", ApiKey.FETCH)):
            figures = self.of(key)
            total = sum(figures.versions)
            yield Metric(f"kafka_server_brokertopicmetrics_total{name}requests_total").add(total)
            yield Metric(f"kafka_server_brokertopicmetrics_failed{name}requests_total").add(figures.failed)
