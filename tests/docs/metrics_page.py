"""Writes docs/reference/metrics.md from the table of metrics. Run it as `python -m tests.docs.metrics_page`."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.metric_table import SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

_INTRODUCTION = Path(__file__).with_name("metrics_introduction.md").read_text("utf-8")


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
