"""Groups, names and the record of what passes on Apache Kafka fit together."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka_tests.catalog import (
    GROUPS,
    NAMED,
    TestMethod,
    UnknownTestError,
    choose,
    group_of,
    method_of,
    passes_on_kafka,
)

SHARE = "org.apache.kafka.clients.consumer.ShareConsumerTest"


def method(class_name: str, name: str) -> TestMethod:
    return TestMethod(class_name, name, f"[class:{class_name}]/[method:{name}()]")


def test_a_group_stands_for_its_classes() -> None:
    choice = choose(["share"])
    assert choice.holds(method(SHARE, "anything"))
    assert not choice.holds(method("kafka.server.JoinGroupRequestTest", "anything"))
    assert not choice.by_name(method(SHARE, "anything"))


def test_a_class_of_a_group_needs_no_package() -> None:
    assert choose(["ShareConsumerTest"]) == choose(["share"]) == choose([SHARE])


def test_single_methods_of_a_class_can_be_chosen() -> None:
    choice = choose(["ShareConsumerTest#testOne", "ShareConsumerTest#testTwo"])
    assert [choice.holds(method(SHARE, name)) for name in ("testOne", "testTwo", "testThree")] == [True, True, False]
    assert choice.by_name(method(SHARE, "testOne"))


def test_a_class_that_is_chosen_whole_stays_whole() -> None:
    for words in (["share", "ShareConsumerTest#testOne"], ["ShareConsumerTest#testOne", "share"]):
        assert choose(words).holds(method(SHARE, "testTwo"))


def test_an_unknown_name_is_refused_with_the_groups_there_are() -> None:
    with pytest.raises(
        UnknownTestError, match=r"shares is neither a group \(requests, consumer, share, rest, security\)"
    ):
        choose(["shares"])


def test_a_test_is_named_by_its_class_method_and_invocation() -> None:
    assert method(SHARE, "testOne").name == "ShareConsumerTest#testOne"
    assert method_of("ShareConsumerTest#testOne[2]") == "ShareConsumerTest#testOne"
    assert group_of("ShareConsumerTest#testOne[2]") == "share"
    assert group_of("SomeOtherTest#testOne") == NAMED


def test_the_record_holds_tests_of_the_groups_only_and_as_many_as_the_docs_say() -> None:
    counted = Counter(group_of(test) for test in passes_on_kafka())
    assert set(counted) == set(GROUPS)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "connect.md").read_text()
    row = next(line for line in page.splitlines() if "`make kafka-tests`" in line)
    said = [int(number) for number in re.findall(r"(?:\d+ of |\()(\d+)", row)]
    groups = [counted[group] for group in ("consumer", "requests", "share", "rest", "security")]
    assert said == [counted.total(), *groups]
