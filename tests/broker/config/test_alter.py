"""Setting, deleting, appending, subtracting."""

from __future__ import annotations

import pytest

from penstock.broker.config import TOPIC, ConfigError, Operation, altered


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.ms": "2"}
    assert altered(TOPIC, current, [("retention.ms", Operation.SET, "5"), ("segment.ms", Operation.DELETE, "")]) == {
        "retention.ms": "5"
    }
    assert altered(TOPIC, {}, [("nope", Operation.DELETE, "")]) == {}
    assert current == {"retention.ms": "1", "segment.ms": "2"}


def test_append_starts_from_the_default_and_adds_nothing_twice() -> None:
    assert altered(TOPIC, {}, [("cleanup.policy", Operation.APPEND, "compact")]) == {"cleanup.policy": "delete,compact"}
    assert altered(TOPIC, {"cleanup.policy": "compact"}, [("cleanup.policy", Operation.APPEND, "compact, delete")]) == {
        "cleanup.policy": "compact,delete"
    }


def test_subtract_removes_items() -> None:
    current = {"cleanup.policy": "compact,delete"}
    assert altered(TOPIC, current, [("cleanup.policy", Operation.SUBTRACT, "delete")]) == {"cleanup.policy": "compact"}
    assert altered(TOPIC, {}, [("cleanup.policy", Operation.SUBTRACT, "delete")]) == {"cleanup.policy": ""}


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
def test_only_lists_have_items(operation: Operation) -> None:
    with pytest.raises(ConfigError, match=f"Can't {operation.name} to key retention.ms because its type is not LIST"):
        altered(TOPIC, {}, [("retention.ms", operation, "5")])
