"""Writes docs/reference/metrics.md from the table of metrics. Run it as `python -m tests.docs.metrics_page`."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.metric_table import SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

_INTRODUCTION = """\
# Metrics

`penstock serve -c penstock.metrics.listen=127.0.0.1:9644` serves `GET /metrics` as Prometheus text. A metric that Kafka
has as a JMX bean carries the name that the [JMX exporter](https://github.com/prometheus/jmx_exporter) of the Prometheus
project gives it with its example configuration `kafka-2_0_0.yml` (`lowercaseOutputName: true`), so that dashboards made
for that exporter find it. What only Penstock has begins with `penstock_`. Times of histograms are in milliseconds where
Kafka's are.

Sums stand for each topic, and for each group and topic. `penstock.metrics.partitions=true` adds the metrics of single
partitions; with thousands of partitions and many groups these are many lines. A scrape is made in slices of about a
millisecond, between which the broker serves its clients.

[packaging/monitoring](../../packaging/monitoring) has a Grafana dashboard (`grafana-dashboard.json`), alert rules for
Prometheus (`alerts.yml`) and their unit tests for `promtool` (`alerts_test.yml`). All of their expressions name metrics
of this page.

Clients that push their metrics (KIP-714) are in the section Clients, and as JSON in `GET /clients`: `clients` has for
each instance its `clientInstanceId`, `clientId`, `host`, `software`, `version`, `principal`, `lastPushSecondsAgo`,
`lastPollSecondsAgo` and `latenciesMs`; `connections` has every open connection. `GET /clients?client=ID` shows one
instance with all its values in `metrics`. Which metrics clients push, and how often, is said by subscriptions; the
first of these commands changes the one that a broker with an endpoint has by default, the second removes it:

```sh
penstock config set client-metrics penstock-default interval.ms=10000
penstock config unset client-metrics penstock-default interval.ms metrics
```

KEDA adds workers to a queue by its age with a trigger like this one, where `workers` is the share group:

```yaml
triggers:
  - type: prometheus
    metadata:
      serverAddress: http://prometheus:9090
      query: max(penstock_share_group_lag_age_seconds{group="workers"})
      threshold: "30"
```

`python -m bench.scrapes` measures what a scrape costs with 1,000 partitions, 100 consumer groups and 50 share groups.

This page is generated from the table that `/metrics` is made of (`python -m tests.docs.metrics_page`).
"""


def page() -> str:
    parts = [_INTRODUCTION]
    for title, specs in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
        for spec in specs:
            labels = ", ".join(f"`{label}`" for label in spec.labels) or "–"
            parts.append(f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
