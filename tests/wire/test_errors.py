from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from penstock.wire.errors import ErrorCode, KafkaError, NotLeaderOrFollower, error_class


def kio_number(name: str) -> int | None:
    found = KioErrorCode.__members__.get(name)
    return None if found is None else int(found.value)


def test_codes_have_kafkas_numbers() -> None:
    ours = {code.value for code in ErrorCode}
    theirs = {int(code.value) for code in KioErrorCode}
    assert theirs <= ours
    for code in ErrorCode:
        number = kio_number(code.name.lower())
        assert number is None or number == code.value, code


@pytest.mark.parametrize(
    "code", [code for code in ErrorCode if code is not ErrorCode.NONE], ids=lambda code: str(code.name)
)
def test_every_code_has_a_class_that_agrees_with_kio_on_whether_to_retry(code: ErrorCode) -> None:
    cls = error_class(code)
    assert issubclass(cls, KafkaError)
    assert cls.code is code
    known = {int(item.value): item for item in KioErrorCode}.get(code.value)
    if known is not None:
        assert cls.retriable == known.retriable, code.name


def test_an_error_says_what_is_the_matter() -> None:
    assert "partition 3" in str(NotLeaderOrFollower("partition 3 moved"))
    assert str(NotLeaderOrFollower())
