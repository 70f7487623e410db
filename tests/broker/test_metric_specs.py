"""Rows of the tables of metrics become specs."""

from __future__ import annotations

from penstock.broker.metric_specs import GAUGE, Spec, specs


def test_labels_are_written_as_one_text() -> None:
    row = specs(("penstock_x", GAUGE, "group topic", "X."), ("penstock_y", GAUGE, "", "Y."))
    assert row == (Spec("penstock_x", GAUGE, ("group", "topic"), "X."), Spec("penstock_y", GAUGE, (), "Y."))
