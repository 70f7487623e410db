"""Strongly connected components, and the edges that histories give."""

from __future__ import annotations

from penstock.checks.cycles import components, read_edges


def test_a_chain_has_no_cycle() -> None:
    assert list(components({"a": {"b"}, "b": {"c"}})) == []


def test_each_cycle_is_found_once() -> None:
    edges = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}
    assert sorted(sorted(each) for each in components(edges)) == [["a", "b"], ["c", "d"]]


def test_a_long_chain_needs_no_deep_stack() -> None:
    edges = {str(each): {str(each + 1)} for each in range(50_000)}
    edges["50000"] = {"0"}
    (cycle,) = components(edges)
    assert len(cycle) == 50_001


def test_an_edge_leads_from_the_writer_of_the_highest_value_read() -> None:
    versions = {("t", 0): [(0, "x"), (1, "y")]}
    assert read_edges(versions, {"z": {("t", 0): 1}}) == {"y": {"z"}}
    assert read_edges(versions, {"y": {("t", 0): 1}, "z": {("t", 1): 0}}) == {}
