"""`python -m tests.simulation.pages` writes the tables of docs/explanation/proof.md that are made from the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from tests.simulation import cluster_faults, faults
from tests.simulation.clusters import OnCluster
from tests.simulation.machines import OnFiles, OnStalledFiles
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_of_logins import LOGINS
from tests.simulation.mutants_of_removal import REMOVAL
from tests.simulation.mutants_of_upgrades import UPGRADES
from tests.simulation.scenario import Scenario
from tests.simulation.scenarios import SCENARIOS, SEEDS
from tests.simulation.whole_machines import OnWholeMachine

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "proof.md"

FAULTS = {
    "kill": "a broker is killed; what it has written stays with the operating system",
    "power-cut": "the machine of a broker goes down: unsynced writes are lost, torn or kept, and connections do not "
    "notice; in a cluster another machine with an empty disk may take its place",
    "power-cut-at-sync": "the same, between two syncs: what one log has on disk another may lack",
    "power-cut-stalled": "the same, when no sync has ended for a while: much is written, and little of it is on disk",
    "clean-stop": "a broker is stopped and started again",
    "drain": "an administrator has a broker hand over what it leads and stop",
    "rolling-restart": "each broker in turn is stopped and started with other configs than before",
    "pause": "a broker stands still, also for longer than sessions and leases",
    "zombie": "a broker stands still with a commit under way, and goes on when others lead what it led",
    "clock-jump": "the wall clock of a broker is set forward or back, by up to 90 s",
    "cut": "connections are reset; what is under way is lost",
    "half-open": "connections fall silent, and nobody hears of it",
    "slow-network": "latencies of up to 200 ms",
    "partition": "some programs cannot reach the broker; their connections stay open, and what is sent arrives later",
    "part-clients": "the same with one broker of several",
    "part-brokers": "a broker and the others cannot reach each other",
    "part-from-catalog": "a broker cannot reach the database",
    "part-from-store": "a broker cannot reach the object store",
    "coordinator-cut-off": "the other brokers cannot reach a coordinator of transactions, and then it cannot reach the "
    "database; what it has sent arrives when others lead what it led",
    "catalog-away": "the database is down",
    "catalog-slow": "the database takes up to 1.7 s to answer",
    "catalog-refuses": "the next requests to the database fail",
    "catalog-loses-answers": "the next requests to the database are carried out, and their connections lost",
    "store-away": "the object store is down",
    "store-slow": "the object store takes up to 1.7 s to answer",
    "store-refuses": "the next requests to the object store fail",
    "store-loses-answers": "the next requests to the object store are carried out, and nobody is told",
    "move-leaders": "an administrator has other brokers lead some partitions",
    "slow-disk": "syncs do not end for a while",
    "crash-at-change": "the broker is killed, or its machine goes down, in the middle of a change of the catalog",
    "disk-full": "writes fail or are cut short, files cannot be made",
    "disk-unreadable": "reads fail for a while",
    "sync-fails": "a sync fails and the kernel has dropped what it was to write: the broker has to stop",
    "kill-client": "a program is killed, alone or with its machine, and started again",
    "pause-client": "a program stands still, also for longer than its session",
}
"""What each kind of fault is."""

_GROUPS: tuple[tuple[type[Scenario], str, Collection[str]], ...] = (
    (OnCluster, "all of a cluster", cluster_faults.EVERYWHERE),
    (OnWholeMachine, "all of a disk with files and `crash-at-change`", dict.fromkeys(OnWholeMachine.kinds)),
    (OnStalledFiles, "all of a disk with files and `power-cut-stalled`", dict.fromkeys(OnStalledFiles.kinds)),
    (OnFiles, "all of a disk with files", (*faults.EVERYWHERE, *faults.ON_FILES)),
    (Scenario, "all", faults.EVERYWHERE),
)
_FEW = 4


def scenarios() -> str:
    rows = [
        f"| `{name}` | {_what(scenario)} | {_faults(scenario)} | {SEEDS[name]} |"
        for name, scenario in SCENARIOS.items()
    ]
    return "\n".join(["| scenario | load | faults | seeds in the default tests |", "|---|---|---|---|", *rows])


def fault_kinds() -> str:
    rows = [f"| `{kind}` | {what} | {_where(kind)} |" for kind, what in FAULTS.items()]
    return "\n".join(["| fault | what happens | where |", "|---|---|---|", *rows])


def mutants(some: Iterable[Mutant]) -> str:
    rows = [
        f"| `{each.name}` | {each.what} | `{each.scenario.name}` | {each.tried.start} to {each.tried.stop - 1} |"
        for each in some
    ]
    return "\n".join(["| mutant | what it does | found by | within seeds |", "|---|---|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "scenarios": scenarios,
    "faults": fault_kinds,
    "mutants": partial(mutants, MUTANTS),
    "mutants of removal": partial(mutants, REMOVAL),
    "mutants of logins": partial(mutants, LOGINS),
    "mutants of upgrades": partial(mutants, UPGRADES),
}


def _what(scenario: type[Scenario]) -> str:
    """The docstring of its class."""
    return " ".join(inspect.cleandoc(vars(scenario).get("__doc__") or "").split())


def _faults(scenario: type[Scenario]) -> str:
    kinds = dict.fromkeys(scenario.kinds)
    _, name, everything = next(each for each in _GROUPS if issubclass(scenario, each[0]))
    left_out = [kind for kind in everything if kind not in kinds]
    if not left_out:
        more = [kind for kind in kinds if list(scenario.kinds).count(kind) > 1 and kind not in name]
        return name + (f", and more of {_listed(more)}" if more else "")
    if len(left_out) <= _FEW:
        return f"{name} but {_listed(left_out)}"
    return _listed(kinds)


def _listed(kinds: Collection[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)


def _where(kind: str) -> str:
    worlds = []
    if kind in faults.KINDS:
        on_files, on_catalogs = kind in faults.ON_FILES, kind in faults.ON_CATALOGS
        worlds.append("a disk with files" if on_files else "a catalog in SQLite" if on_catalogs else "one broker")
    if kind in cluster_faults.KINDS:
        worlds.append("a cluster")
    return ", ".join(worlds)


def renewed(page: str) -> str:
    for name, table in TABLES.items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"\n<!-- /{name} -->")
        assert end, f"the page has no place for {name}"
        page = before + begin + table() + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
