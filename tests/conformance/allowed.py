"""The differences from Apache Kafka that are meant, each with its reason.

docs/compatibility.md is checked against this list: every reason stands there word for word. An entry that no longer
matches any difference is reported, so that the list does not outlive what it excuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .compare import Difference


@dataclass(frozen=True, slots=True)
class Allowed:
    """Differences whose scenario, step, path and values match (as regular expressions) are meant."""

    reason: str
    path: str = ""
    step: str = ""
    scenario: str = ""
    kafka: str = ""
    penstock: str = ""

    def covers(self, scenario: str, difference: Difference) -> bool:
        return (
            re.search(self.scenario, scenario) is not None
            and re.search(self.step, difference.step) is not None
            and re.search(self.path, difference.path) is not None
            and re.search(self.kafka, str(difference.kafka)) is not None
            and re.search(self.penstock, str(difference.penstock)) is not None
        )


# APIs that Apache Kafka answers and Penstock does not advertise: clients see that and do not call them.
NOT_ANSWERED: dict[str, str] = {}

ALLOWED: tuple[Allowed, ...] = ()


def unexplained(scenario: str, found: Iterable[Difference]) -> list[Difference]:
    return [difference for difference in found if not any(entry.covers(scenario, difference) for entry in ALLOWED)]
