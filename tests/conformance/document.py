"""Two pages made from `meant.ALLOWED` and `meant_cluster.CLUSTER`: lists in docs/reference/compatibility.md, and
docs/reference/differences.md.

`python -m tests.conformance --document` writes them; a test fails when they say anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .allowed import Allowed
from .compare import ABSENT
from .kio_codec import Json
from .meant import ALLOWED
from .meant_cluster import CLUSTER

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
FIELDS = DOCUMENT.parent / "differences.md"
BEGIN = "<!-- Differences: written by `python -m tests.conformance --document` -->"
END = "<!-- End of the differences -->"
CLUSTER_BEGIN = "<!-- Differences of a cluster: written by `python -m tests.conformance --document` -->"
CLUSTER_END = "<!-- End of the differences of a cluster -->"
LONGEST = 40

HEAD = """# Differences from Apache Kafka, field by field

Every field of a response that differs from that of Apache Kafka 4.3.1, by the reasons in
[compatibility.md](compatibility.md#where-responses-differ-and-why). A dash stands for a field, or a whole response,
that is absent. Conversations and requests are named as in `tests/conformance/scenarios`. This page is written by
`python -m tests.conformance --document`."""


def section(allowed: Iterable[Allowed], begin: str, end: str) -> str:
    """The reasons, numbered."""
    reasons = [f"{number}. {reason}" for number, reason in enumerate(_by_reason(allowed), 1)]
    return "\n\n".join([begin, "\n".join(reasons), end])


def page() -> str:
    """For each reason a table of the fields that it explains. Requests that share a row differ alike."""
    parts = [HEAD]
    for number, (reason, entries) in enumerate(_by_reason(ALLOWED).items(), 1):
        parts += [f"## {number}. {reason}", _table(entries)]
    for number, (reason, entries) in enumerate(_by_reason(CLUSTER).items(), 1):
        parts += [f"## In a cluster, {number}. {reason}", _table(entries)]
    return "\n\n".join(parts) + "\n"


def _table(entries: Iterable[Allowed]) -> str:
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for entry in entries:
        key = (entry.scenario, entry.path, _shown(entry.kafka), _shown(entry.penstock))
        rows.setdefault(key, []).append(entry.step)
    lines = [
        f"| {scenario} | {'; '.join(steps)} | `{path}` | {kafka} | {penstock} |"
        for (scenario, path, kafka, penstock), steps in rows.items()
    ]
    return "\n".join(["| Conversation | Request | Field | Apache Kafka | Penstock |", "|---|---|---|---|---|", *lines])


def _by_reason(allowed: Iterable[Allowed]) -> dict[str, list[Allowed]]:
    by_reason: dict[str, list[Allowed]] = {}
    for entry in allowed:
        by_reason.setdefault(entry.reason, []).append(entry)
    return by_reason


def _shown(value: Json) -> str:
    if value == ABSENT:
        return "–"
    text = "null" if value is None else '""' if value == "" else str(value)
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 10]}… ({len(text)} characters)"
    return f"`{shown}`"


def revised(text: str) -> str:
    """The document with both lists as they are to be."""
    for allowed, begin, end in ((ALLOWED, BEGIN, END), (CLUSTER, CLUSTER_BEGIN, CLUSTER_END)):
        text = text[: text.index(begin)] + section(allowed, begin, end) + text[text.index(end) + len(end) :]
    return text


def write() -> None:
    DOCUMENT.write_text(revised(DOCUMENT.read_text()))
    FIELDS.write_text(page())
