from __future__ import annotations

import pytest

from penstock.wire import schema


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("3-5", [3, 4, 5], [2, 6]), ("3+", [3, 99], [2]), ("none", [], [0, 1, 32767])],
)
def test_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = schema.parse_versions(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TopicId", "topic_id"),
        ("IsrNodes", "isr_nodes"),
        ("ISRNodes", "isr_nodes"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("SessionTimeoutMs", "session_timeout_ms"),
    ],
)
def test_names_become_python_names(name: str, expected: str) -> None:
    assert schema.snake_case(name) == expected


def test_a_field_line_is_read_whole() -> None:
    host = next(f for f in schema.find("FetchResponse").structs["NodeEndpoint"].fields if f.kafka_name == "Rack")
    assert (host.name, host.type, host.default, host.ignorable) == ("rack", "string", "null", False)
    assert 16 in host.nullable
    assert 15 not in host.versions


def test_every_table_holds_the_messages_of_its_name() -> None:
    for name in schema.table_names():
        for message in schema.table(name).values():
            assert schema.find(message.name) is message


def test_no_struct_is_empty() -> None:
    for name in schema.table_names():
        for message in schema.table(name).values():
            assert all(struct.fields for struct in message.structs.values()), message.name


def test_an_unknown_message_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match="NoSuchRequest"):
        schema.find("NoSuchRequest")
