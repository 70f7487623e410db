"""The table of metrics keeps the rules of Prometheus."""

from __future__ import annotations

import re

import pytest

from penstock.broker.metric_specs import COUNTER, GAUGE, HISTOGRAM, Spec
from penstock.broker.metric_table import SECTIONS, TABLE


@pytest.mark.parametrize("spec", TABLE.values(), ids=lambda spec: spec.name)
def test_a_metric_is_described_as_prometheus_expects(spec: Spec) -> None:
    assert re.fullmatch(r"(kafka|penstock|process)_[a-z0-9_]+", spec.name)
    assert spec.kind in (COUNTER, GAUGE, HISTOGRAM)
    assert all(re.fullmatch(r"[a-z][A-Za-z]*", label) for label in spec.labels)
    assert spec.help.endswith(".")


def test_no_metric_is_in_the_table_twice() -> None:
    assert len(TABLE) == sum(map(len, SECTIONS.values()))
