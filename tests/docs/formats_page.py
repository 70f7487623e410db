"""Writes the table of APIs in docs/reference/formats.md. Run it as `python -m tests.docs.formats_page`."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.gate import Access
from penstock.broker.handlers.table import SERVED
from penstock.wire.api import API_TABLE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
_HEADING = "## APIs\n"
_TABLE = "| API | key | versions | rights that it checks, some or all |\n|---|---|---|---|\n"


def page(text: str) -> str:
    """The page with the table of APIs at its end."""
    introduction = text[text.index(_HEADING) :].split("\n| ", 1)[0].rstrip()
    return f"{text[: text.index(_HEADING)]}{introduction}\n\n{_TABLE}{''.join(_rows())}"


def _rows() -> list[str]:
    served = sorted(SERVED)
    return [
        f"| {info.name} | {info.key.value} | {_versions(info.min_version, info.max_version)} "
        f"| {', '.join(map(_right, SERVED[info.key].accesses)) or '—'} |\n"
        for info in (API_TABLE[key] for key in served)
    ]


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _right(access: Access) -> str:
    operation, resource = (each.name.capitalize().replace("_", " ").lower() for each in access)
    return operation if operation.endswith(resource) or "cluster" in operation else f"{operation} {resource}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
