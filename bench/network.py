"""Cuts nodes off from each other as a network does that swallows packets: nothing is refused, and nothing is answered.

Linux's packet filter sees which group the sender of a packet belongs to, so each node runs in a group of its own. Only
packets between the node and the ports that are named are dropped; clients go on reaching it. Needs root and iptables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache

_FIRST_GROUP = 61_000


def group_of(number: int) -> int | None:
    """The group that a node is to run in; None where nobody can be cut off."""
    return _FIRST_GROUP + number if can_cut_off() else None


@cache
def can_cut_off() -> bool:
    if os.geteuid() != 0 or shutil.which("iptables") is None:
        return False
    return subprocess.run(["iptables", "-w", "-L", "OUTPUT"], capture_output=True).returncode == 0


class CutOff:
    """Node `number` and the others do not reach each other's ports; nor does it reach `shared` ones."""

    def __init__(self, number: int, ports: Mapping[int, Iterable[int]], shared: Iterable[int] = ()) -> None:
        self._rules = [
            (number, sorted({*shared, *(port for other in ports if other != number for port in ports[other])}))
        ]
        self._rules += [(other, sorted(ports[number])) for other in ports if other != number]
        self._change("-A")

    def heal(self) -> None:
        self._change("-D")

    def _change(self, what: str) -> None:
        for number, ports in self._rules:
            group = str(_FIRST_GROUP + number)
            rule = ["OUTPUT", "-o", "lo", "-p", "tcp", "-m", "owner", "--gid-owner", group]
            rule += ["-m", "multiport", "--dports", ",".join(map(str, ports)), "-j", "DROP"]
            subprocess.run(["iptables", "-w", what, *rule], check=True, capture_output=True)
