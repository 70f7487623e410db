"""Two transcripts side by side: where they differ, field by field, as paths that a person can read.

A struct that only one of them has shows as the fields it holds, so that every difference is one of single values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from .conversation import Transcript
from .kio_codec import Json


@dataclass(frozen=True, slots=True)
class Difference:
    step: str
    """The request, with its note."""
    path: str
    kafka: Json
    penstock: Json

    def __str__(self) -> str:
        return f"{self.step} | {self.path}: Kafka {_short(self.kafka)}, Penstock {_short(self.penstock)}"


ABSENT = "<absent>"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def differences(kafka: Transcript, penstock: Transcript) -> list[Difference]:
    found: list[Difference] = []
    for number in range(max(len(kafka), len(penstock))):
        theirs = kafka[number] if number < len(kafka) else {"request": ABSENT}
        ours = penstock[number] if number < len(penstock) else {"request": ABSENT}
        step = str(theirs["request"] if theirs["request"] != ABSENT else ours["request"])
        found += [Difference(step, path, a, b) for path, a, b in _walk(theirs, ours, "")]
    return found


def _walk(kafka: Json, penstock: Json, path: str) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(kafka, dict) and isinstance(penstock, dict):
        for key in [*kafka, *(key for key in penstock if key not in kafka)]:
            yield from _walk(kafka.get(key, ABSENT), penstock.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(penstock, list) and _named(kafka) and _named(penstock):
        theirs, ours = _by_name(kafka), _by_name(penstock)
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            yield from _walk(theirs.get(name, ABSENT), ours.get(name, ABSENT), f"{path}[{name}]")
    elif isinstance(kafka, list) and isinstance(penstock, list):
        for index, (a, b) in enumerate(zip_longest(kafka, penstock, fillvalue=ABSENT)):
            yield from _walk(a, b, f"{path}[{index}]")
    elif kafka == ABSENT and isinstance(penstock, dict | list) and penstock:
        yield from _walk(type(penstock)(), penstock, path)
    elif penstock == ABSENT and isinstance(kafka, dict | list) and kafka:
        yield from _walk(kafka, type(kafka)(), path)
    elif kafka != penstock:
        yield path, kafka, penstock


def _name(element: Json) -> str:
    for key in ("name", "api_key", "feature"):
        if isinstance(element, dict) and key in element:
            return str(element[key])
    return ""


def _named(array: list[Json]) -> bool:
    names = [_name(element) for element in array]
    return all(names) and len(set(names)) == len(names)


def _by_name(array: list[Json]) -> dict[str, Json]:
    return {_name(element): element for element in array}
