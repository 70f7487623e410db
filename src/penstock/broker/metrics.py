"""What the broker knows of itself, as Prometheus text or as OpenMetrics.

Each part registers a collector; nothing is computed until somebody asks. What a metric is called and means is in
`broker.metric_table`. A scrape of a large broker takes long, so it is made in pieces: a collector yields its metrics
one by one, and None wherever the scrape may let the event loop serve others. What a collector walks over between two
yields it has to have copied, because the broker goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import accumulate

from penstock.broker.histogram import BOUNDS_MS, Histogram
from penstock.broker.metric_specs import COUNTER, unit_of
from penstock.broker.slices import in_slices, let_others_run

_LINES_PER_PIECE = 200
_SERIES_MAX = 100_000

Labels = tuple[str, ...]


class Metric:
    """The samples of one metric of the table."""

    __slots__ = ("_left_out", "help", "histograms", "kind", "label_names", "name", "samples")

    def __init__(self, name: str) -> None:
        from penstock.broker.metric_table import TABLE

        spec = TABLE[name]
        self.name = name
        self.kind = spec.kind
        self.help = spec.help
        self.label_names = spec.labels
        self.samples: list[tuple[Labels, float]] = []
        self.histograms: list[tuple[Labels, Histogram]] = []
        self._left_out = 0

    def add(self, value: float, *labels: str) -> Metric:
        """Add a sample, with the values of the labels in the order of the table."""
        assert len(labels) == len(self.label_names), (self.name, labels)
        self.samples.append((labels, value))
        return self

    def add_labelled(self, value: float, labels: Labels) -> None:
        """The same with labels that several metrics share."""
        self.samples.append((labels, value))

    def add_histogram(self, histogram: Histogram, *labels: str) -> Metric:
        assert len(labels) == len(self.label_names), (self.name, labels)
        self.histograms.append((labels, histogram))
        return self

    def leave_out(self) -> None:
        """Count a series beyond the bound, for who knows the bound and spares the work of making it."""
        self._left_out += 1

    def cut(self, most: int) -> int:
        """Keep the first `most` series; returns how many were left out."""
        surplus = max(0, len(self.samples) - most)
        if surplus:
            del self.samples[most:]
        return surplus + self._left_out

    def drain(self, size: int) -> Iterator[list[tuple[Labels, float]]]:
        """The samples, so many at a time, which it then no longer has: to free 100,000 at once would take long."""
        self.samples.reverse()
        while self.samples:
            yield self.samples[: -size - 1 : -1]
            del self.samples[-size:]

    def pieces(self) -> Iterator[str]:
        """Prometheus' own text format, 0.0.4. It can be made once."""
        yield f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"
        yield from self._samples_text()

    def open_pieces(self) -> Iterator[str]:
        """The text format of OpenMetrics 1.0.

        Its counters are named without `_total`, which each sample adds. Kafka has some whose names do not end so; they
        are of an unknown type there, since dashboards know them by these names.
        """
        family, kind = self.name, self.kind
        if kind == COUNTER:
            family, kind = (family.removesuffix("_total"), kind) if family.endswith("_total") else (family, "unknown")
        unit = unit_of(self.name, self.kind)
        yield f"# TYPE {family} {kind}\n" + (f"# UNIT {family} {unit}\n" if unit and kind != "unknown" else "")
        yield f"# HELP {family} {_escape(self.help)}\n"
        yield from self._samples_text()

    def _samples_text(self) -> Iterator[str]:
        for samples in self.drain(_LINES_PER_PIECE):
            yield "".join([f"{self.name}{self._label_text(labels)} {value}\n" for labels, value in samples])
        for labels, histogram in self.histograms:
            yield self._histogram_text(labels, histogram)

    def _histogram_text(self, labels: Labels, histogram: Histogram) -> str:
        counts = histogram.counts
        lines = []
        for bound, count in zip((*BOUNDS_MS, "+Inf"), accumulate(counts), strict=True):
            lines.append(f"{self.name}_bucket{self._label_text(labels, le=str(bound))} {count}\n")
        lines.append(f"{self.name}_sum{self._label_text(labels)} {histogram.milliseconds}\n")
        lines.append(f"{self.name}_count{self._label_text(labels)} {sum(counts)}\n")
        return "".join(lines)

    def _label_text(self, values: Labels, le: str = "") -> str:
        pairs = [f'{name}="{_escape(value)}"' for name, value in zip(self.label_names, values, strict=True)]
        if le:
            pairs.append(f'le="{le}"')
        return "{" + ",".join(pairs) + "}" if pairs else ""


Collector = Callable[[], Iterable[Metric | None]]


class Metrics:
    def __init__(self, precise: Callable[[], float], series_max: Callable[[], int] = lambda: _SERIES_MAX) -> None:
        """`series_max` says how many series a metric may have; what exceeds it is left out, and counted."""
        self._precise = precise
        self.series_max = series_max
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        self._collectors.append(collector)

    def text(self) -> str:
        return "".join(piece for metric in self._collected() if metric is not None for piece in metric.pieces())

    def _collected(self) -> Iterator[Metric | None]:
        """Every metric within its bound; the last one tells what the others had too much."""
        most = self.series_max()
        left_out = Metric("penstock_metrics_left_out_series")
        for collector in list(self._collectors):
            for metric in collector():
                if metric is not None and (surplus := metric.cut(most)):
                    left_out.add(surplus, metric.name)
                yield metric
        yield left_out

    async def scrape(
        self, pause: Callable[[], Awaitable[None]] = let_others_run, *, openmetrics: bool = False
    ) -> list[bytes]:
        """The text, made a little at a time, so that others are served meanwhile."""
        text = Metric.open_pieces if openmetrics else Metric.pieces
        pieces = await self.render(lambda metric: (piece.encode() for piece in text(metric)), pause)
        return [*pieces, b"# EOF\n"] if openmetrics else pieces

    async def render(
        self, render: Callable[[Metric], Iterator[bytes]], pause: Callable[[], Awaitable[None]] = let_others_run
    ) -> list[bytes]:
        """Every metric as bytes, made a little at a time: between any two pieces others may be served."""

        def pieces() -> Iterator[bytes]:
            for metric in self._collected():
                yield from (b"",) if metric is None else render(metric)

        return await in_slices(pieces(), self._precise, pause)


def _escape(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
