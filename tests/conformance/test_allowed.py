from __future__ import annotations

from tests.conformance.allowed import OneOf, idle, judged, meant
from tests.conformance.compare import ABSENT, Difference, differences

SCENARIO = "produce/broken"
ENTRIES = meant(
    "why", SCENARIO, "produce: cut", {"response.topics[t].error_code": (1, 2), "response.ms": (5, OneOf((6, 7)))}
)
CODE, MS = ENTRIES


def code(
    kafka: object = 1, penstock: object = 2, step: str = "produce v3: cut", field: str = "error_code"
) -> Difference:
    return Difference(step, f"response.topics[broken-v3-t].{field}", kafka, penstock)


def test_an_entry_excuses_its_field_in_every_version_of_its_conversation() -> None:
    assert judged(SCENARIO, [code(), code(step="produce v13: cut")], ENTRIES) == ([], {CODE})
    assert idle(SCENARIO, {CODE}, ENTRIES) == [MS]


def test_an_entry_excuses_no_other_request_field_value_or_conversation() -> None:
    others = [code(step="produce v3: whole"), code(field="error_message"), code(kafka=0), code(penstock=3)]
    assert judged(SCENARIO, others, ENTRIES) == (others, set())
    assert judged("produce/other", [code()], ENTRIES) == ([code()], set())


def test_a_value_that_depends_on_time_has_to_be_one_of_those_listed() -> None:
    slow, wrong = Difference("produce v3: cut", "response.ms", 5, 7), Difference("produce v3: cut", "response.ms", 5, 8)
    assert judged(SCENARIO, [slow, wrong], ENTRIES) == ([wrong], {MS})


def test_a_struct_that_only_one_broker_has_differs_in_each_of_its_fields() -> None:
    theirs = [{"request": "r", "response": {"parts": [{"index": 0, "codes": [1]}]}}]
    ours = [{"request": "r", "outcome": "no answer"}]
    assert differences(theirs, ours) == [
        Difference("r", "response.parts[0].index", 0, ABSENT),
        Difference("r", "response.parts[0].codes[0]", 1, ABSENT),
        Difference("r", "outcome", ABSENT, "no answer"),
    ]


def test_of_two_lists_the_longer_one_shows_what_the_other_lacks() -> None:
    assert differences([{"request": "r", "n": [1, 2]}], [{"request": "r", "n": [1]}]) == [
        Difference("r", "n[1]", 2, ABSENT)
    ]
