"""The page about the Python API has every public name, with what its docstring says."""

from __future__ import annotations

import inspect
import re

import penstock.checks
import penstock.client
import penstock.client.sync
import penstock.spark
import penstock.testing
from penstock.client.sync_stubs import stub
from tests.docs.api_page import PAGE, PIPELINES, page

TEXT = PAGE.read_text("utf-8")


def test_the_page_is_what_the_docstrings_say() -> None:
    assert page() == TEXT, "run python -m tests.docs.api_page"


def test_every_public_name_has_a_section() -> None:
    packages = (penstock.client, penstock.testing, penstock.spark, penstock.checks)
    for package in packages:
        part = TEXT.partition(f"\n## {package.__name__}\n")[2].partition("\n## ")[0]
        assert set(re.findall(r"^### (\w+)$", part, re.MULTILINE)) == set(package.__all__)


def test_every_section_about_spark_has_a_docstring() -> None:
    part = TEXT.partition("\n## penstock.spark\n")[2].partition("\n## penstock.checks\n")[0]
    sections = re.split(r"^### ", part, flags=re.MULTILINE)[1:]
    assert len(sections) == len(penstock.spark.__all__) + len(PIPELINES)
    assert [section.split("\n")[0] for section in sections if len(section.split("\n\n")) < 3] == []


def test_every_blocking_call_is_on_the_page() -> None:
    calls = set(re.findall(r"^    def ([a-z]\w*)\(", stub(), re.MULTILINE)) - {"stop"}
    assert len(calls) > 80
    assert sorted(name for name in calls if not re.search(rf"`(async )?{name}[(`]", TEXT)) == []


def test_every_public_class_says_what_it_is() -> None:
    classes = [getattr(penstock.client, name) for name in penstock.client.__all__]
    plain = {"TopicPartition", "OffsetAndTimestamp", "AcknowledgeType"}
    silent = [each.__name__ for each in classes if inspect.isclass(each) and not (each.__doc__ or "").strip()]
    assert set(silent) <= plain


def test_every_method_says_what_it_does() -> None:
    sections = re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]
    lists_of_names = {"AcknowledgeType", "OffsetSpec", "ResourceType"}
    for section in sections:
        name = section.partition("\n")[0]
        silent = re.findall(r"^- `([^`]+)`$", section, re.MULTILINE)
        assert silent == [] or name in lists_of_names, name
