"""Which differences from Apache Kafka are meant: the rules. `meant` and `meant_*` hold the differences themselves.

An entry names one conversation, one request of it, one field, the value that Kafka gives and the value that Penstock
gives, all of them exactly, and the reason. Nothing excuses a whole answer. An entry that no longer meets its difference
fails the test of its conversation, so the list cannot outlive what it excuses.

Versions and the names that a conversation makes up from its version are left out: `topics[t]` is the topic `t` of any
version of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .compare import Difference
from .kio_codec import Json

Pair = tuple[Json, Json]
"""Kafka's value and Penstock's."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value that depends on how long the conversation took."""

    values: tuple[Json, ...]

    def __str__(self) -> str:
        return " or ".join(str(value) for value in self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    reason: str
    scenario: str
    """Its family and name."""
    step: str
    """The request without its version, and its note."""
    path: str
    kafka: Json
    penstock: Json

    def covers(self, difference: Difference, name: str) -> bool:
        return (
            self.step == _without_version(difference.step)
            and self.path == _without_names(difference.path, name)
            and self.kafka == _without_names(difference.kafka, name)
            and _fits(_without_names(difference.penstock, name), self.penstock)
        )

    def __str__(self) -> str:
        return f"{self.scenario}: {self.step} | {self.path}: Kafka {self.kafka}, Penstock {self.penstock}"


def meant(reason: str, scenario: str, steps: str | Iterable[str], fields: Mapping[str, Pair]) -> tuple[Allowed, ...]:
    """The same fields of one or more requests of a conversation."""
    named = (steps,) if isinstance(steps, str) else steps
    return tuple(Allowed(reason, scenario, step, path, *pair) for step in named for path, pair in fields.items())


def _fits(value: Json, expected: Json) -> bool:
    return value in expected.values if isinstance(expected, OneOf) else bool(value == expected)


def _without_version(step: str) -> str:
    return re.sub(r"^(\w+) v\d+", r"\1", step)


def _without_names(value: Json, name: str) -> Json:
    return re.sub(rf"\b{name}-v\d+-", "", value) if isinstance(value, str) else value


def judged(
    scenario: str, found: Iterable[Difference], allowed: Iterable[Allowed]
) -> tuple[list[Difference], set[Allowed]]:
    """The differences of a conversation that no entry covers, and the entries that cover the others."""
    name = scenario.rsplit("/", 1)[1]
    candidates = [entry for entry in allowed if entry.scenario == scenario]
    left, used = [], set()
    for difference in found:
        covering = {entry for entry in candidates if entry.covers(difference, name)}
        used |= covering
        if not covering:
            left.append(difference)
    return left, used


def idle(scenario: str, used: set[Allowed], allowed: Iterable[Allowed]) -> list[Allowed]:
    """The entries of a conversation that met no difference in any of its versions."""
    return [entry for entry in allowed if entry.scenario == scenario and entry not in used]
