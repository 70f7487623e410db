"""Cycles among transactions: a search for orders that no serial execution could have given.

Edges come from what was observed: *ww* from one writer of a partition to the next, *wr* from the writer of the highest
value that a transaction read in a partition to the reader, *rw* from a reader to the writer of the value after it.

Kafka orders writes when they are sent, not when they are committed, so a cycle of ww edges (G0), and one in which ww
edges take part, happen in a healthy cluster. Polls are no snapshot: a transaction that polls one partition before and
another one after a commit makes an rw edge and a wr edge with the same transaction, so cycles with rw edges (G-single,
G2) happen too. What must not happen is a cycle of wr edges alone (G1c): each read what the other had written before
either was committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]
Versions: TypeAlias = Mapping[Place, Sequence[tuple[int, str]]]
"""The offsets of each partition with the transactions that wrote them, in order."""
Reads: TypeAlias = Mapping[str, Mapping[Place, int]]
"""The highest offset of each partition that a transaction read."""


def dependency_cycles(versions: Versions, reads: Reads) -> Iterator[tuple[str, list[str]]]:
    """The forbidden cycles, each with its name and its transactions."""
    for component in components(read_edges(versions, reads)):
        yield "G1c", component


def read_edges(versions: Versions, reads: Reads) -> dict[str, set[str]]:
    """wr: from writers to readers."""
    writers = {place: dict(order) for place, order in versions.items()}
    edges: dict[str, set[str]] = {}
    for reader, highest in reads.items():
        for place, offset in highest.items():
            writer = writers.get(place, {}).get(offset)
            if writer is not None and writer != reader:
                edges.setdefault(writer, set()).add(reader)
    return edges


def components(edges: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for each in following:
                if each not in index:
                    index[each] = low[each] = len(index)
                    stack.append(each)
                    on_stack.add(each)
                    work.append((each, iter(sorted(edges.get(each, ())))))
                    break
                if each in on_stack:
                    low[node] = min(low[node], index[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        each = stack.pop()
                        on_stack.discard(each)
                        component.append(each)
                        if each == node:
                            break
                    if len(component) > 1:
                        yield component[::-1]
