"""Reads `/metrics` of a broker: the samples of a scrape, and what happened between two of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")

Labels = tuple[tuple[str, str], ...]
Samples = dict[str, dict[Labels, float]]
ByBroker = Mapping[str, Samples]
"""Scrapes of several brokers, taken together: by the broker's id, or its address."""


class MalformedScrape(ValueError):
    """A text is not what a broker shows under /metrics."""


def parse(text: str, prefixes: tuple[str, ...] = ("",)) -> Samples:
    """The samples of Prometheus text whose names begin with one of `prefixes`, by name and labels."""
    found: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for line in text.splitlines():
        if not line or line[0] == "#" or not line.startswith(prefixes):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise MalformedScrape(f"{line[:100]!r} is not a line of Prometheus text")
        name, labels, value = match.groups()
        found[name][tuple((key, _unescaped(text)) for key, text in _LABEL.findall(labels or ""))] = float(value)
    return dict(found)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def series(brokers: ByBroker, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """The labels and values of a metric, of all brokers."""
    for samples in brokers.values():
        for labels, value in samples.get(name, {}).items():
            yield dict(labels), value


@dataclass(frozen=True, slots=True)
class Between:
    """What happened between two scrapes of one or several brokers.

    Counters are compared broker by broker: one that starts anew, or does not answer once, would otherwise take the
    others' counts along. Each series of a gauge comes from one broker.
    """

    before: ByBroker
    after: ByBroker
    seconds: float

    def gauges(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """The values of a metric at the end."""
        return series(self.after, name)

    def increases(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """By how much the counters of a metric grew. One that is smaller than before began anew."""
        for broker, after in self.after.items():
            if broker not in self.before:
                continue
            before = self.before[broker].get(name, {})
            for labels, value in after.get(name, {}).items():
                earlier = before.get(labels, 0.0)
                yield dict(labels), value - earlier if value >= earlier else value

    def rates(self, name: str, *by: str) -> dict[tuple[str, ...], float]:
        """Per second, summed over all labels but those in `by`."""
        sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for labels, increase in self.increases(name):
            sums[tuple(labels.get(label, "") for label in by)] += increase / self.seconds
        return dict(sums)

    def quantile(self, name: str, share: float, label: str, value: str) -> float | None:
        """The bound of a histogram's bucket that holds this share of what was counted; None if nothing was."""
        buckets: defaultdict[float, float] = defaultdict(float)
        for labels, increase in self.increases(f"{name}_bucket"):
            if labels.get(label) == value:
                buckets[float(labels["le"])] += increase
        bounds = sorted(buckets)
        if not bounds or not buckets[bounds[-1]]:
            return None
        rank = share * buckets[bounds[-1]]
        finite = [bound for bound in bounds if bound != float("inf")]
        return next((bound for bound in finite if buckets[bound] >= rank), finite[-1] if finite else None)

    def mean(self, name: str, label: str, value: str) -> float | None:
        """The mean of what a histogram counted; None if it counted nothing."""
        total, count = (
            sum(increase for labels, increase in self.increases(name + part) if labels.get(label) == value)
            for part in ("_sum", "_count")
        )
        return total / count if count else None
