"""The part of docs/compatibility.md that lists the differences, made from `meant.ALLOWED`.

`python -m tests.conformance --document` writes it; a test fails when the document says anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .allowed import Allowed
from .compare import ABSENT
from .kio_codec import Json

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN = "<!-- Differences: written by `python -m tests.conformance --document` -->"
END = "<!-- End of the differences -->"
LONGEST = 40


def section(allowed: Iterable[Allowed]) -> str:
    """The reasons, then for each a table of the fields that it excuses. Requests that share a row differ alike."""
    by_reason: dict[str, list[Allowed]] = {}
    for entry in allowed:
        by_reason.setdefault(entry.reason, []).append(entry)
    reasons = [f"{number}. {reason}" for number, reason in enumerate(by_reason, 1)]
    parts = [BEGIN, "\n".join(reasons), "### Field by field"]
    for number, (reason, entries) in enumerate(by_reason.items(), 1):
        rows: dict[tuple[str, str, str, str], list[str]] = {}
        for entry in entries:
            key = (entry.scenario, entry.path, _shown(entry.kafka), _shown(entry.penstock))
            rows.setdefault(key, []).append(entry.step)
        lines = [
            f"| {scenario} | {'; '.join(steps)} | `{path}` | {kafka} | {penstock} |"
            for (scenario, path, kafka, penstock), steps in rows.items()
        ]
        head = ["| Conversation | Request | Field | Apache Kafka | Penstock |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"#### {number}. {reason}", "", *head, *lines]))
    return "\n\n".join([*parts, END])


def _shown(value: Json) -> str:
    if value == ABSENT:
        return "–"
    text = "null" if value is None else '""' if value == "" else str(value)
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 10]}… ({len(text)} characters)"
    return f"`{shown}`"


def written(text: str) -> str:
    """The section as it stands in the document."""
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def write(allowed: Iterable[Allowed]) -> None:
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text.replace(written(text), section(allowed)))
