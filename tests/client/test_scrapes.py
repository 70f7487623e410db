"""Scrapes of `/metrics` are read as they were written, and compared."""

from __future__ import annotations

import pytest

from penstock.client.scrapes import Between, MalformedScrape, parse

BEFORE = """# HELP a_total A.
# TYPE a_total counter
a_total{topic="x"} 10
h_bucket{request="Fetch",le="1.0"} 0
h_bucket{request="Fetch",le="2.0"} 5
h_bucket{request="Fetch",le="+Inf"} 5
h_sum{request="Fetch"} 8
h_count{request="Fetch"} 5
"""
AFTER = """a_total{topic="x"} 30
a_total{topic="new"} 4
h_bucket{request="Fetch",le="1.0"} 90
h_bucket{request="Fetch",le="2.0"} 105
h_bucket{request="Fetch",le="+Inf"} 105
h_sum{request="Fetch"} 58
h_count{request="Fetch"} 105
"""
BETWEEN = Between({"b": parse(BEFORE)}, {"b": parse(AFTER)}, 2.0)


def test_labels_are_unescaped() -> None:
    assert parse('m{a="quo\\"te",b="line\\nbreak",c="back\\\\slash"} 1.5\n') == {
        "m": {(("a", 'quo"te'), ("b", "line\nbreak"), ("c", "back\\slash")): 1.5}
    }


def test_what_is_no_prometheus_text_is_refused() -> None:
    with pytest.raises(MalformedScrape, match="not a line of Prometheus text"):
        parse("<html>\n")


def test_only_samples_with_one_of_the_prefixes_are_read() -> None:
    assert parse("a_b 1\na_c 2\nb 3\nbroken\n", ("a_", "b 3")) == {"a_b": {(): 1}, "a_c": {(): 2}, "b": {(): 3}}


def test_counters_of_several_brokers_are_compared_broker_by_broker() -> None:
    """One that starts anew, comes, or does not answer once takes nothing of the others along."""
    before = {
        "steady": parse('m_total{t="x"} 1000\n'),
        "anew": parse('m_total{t="x"} 900\n'),
        "gone": parse("m_total 5\n"),
    }
    after = {
        "steady": parse('m_total{t="x"} 1010\n'),
        "anew": parse('m_total{t="x"} 4\n'),
        "new": parse("m_total 70\n"),
    }
    assert Between(before, after, 2.0).rates("m_total", "t") == {("x",): 7.0}


def test_gauges_are_those_of_all_brokers() -> None:
    after = {"a": parse('lag{group="g"} 3\n'), "b": parse('lag{group="h"} 4\n')}
    assert list(Between({}, after, 1.0).gauges("lag")) == [({"group": "g"}, 3), ({"group": "h"}, 4)]


def test_rates_are_per_second_and_begin_with_a_new_counter() -> None:
    assert BETWEEN.rates("a_total", "topic") == {("x",): 10.0, ("new",): 2.0}
    assert BETWEEN.rates("a_total") == {(): 12.0}


def test_a_counter_that_is_smaller_than_before_began_anew() -> None:
    assert Between({"b": parse(AFTER)}, {"b": parse(BEFORE)}, 1.0).rates("a_total", "topic") == {("x",): 10.0}


def test_quantiles_and_means_are_those_of_the_interval() -> None:
    assert BETWEEN.quantile("h", 0.5, "request", "Fetch") == 1.0
    assert BETWEEN.quantile("h", 0.99, "request", "Fetch") == 2.0
    assert BETWEEN.mean("h", "request", "Fetch") == 0.5
    assert BETWEEN.quantile("h", 0.5, "request", "Produce") is None
    assert BETWEEN.mean("h", "request", "Produce") is None
