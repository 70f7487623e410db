"""`make mutants PACKAGE=queues`: change a package of the core in thousands of small ways, and see which no test finds.

python -m tests.mutation queues --seconds 600        goes on where the last run stopped
python -m tests.mutation queues --modules locks      only the mutants of queues/locks.py
python -m tests.mutation queues --again left         tries what is left once more, after tests were added
python -m tests.mutation queues --report             what is known, without running anything

mutmut makes the mutants and runs, for each, the tests of the package that reach the function, in a forked process. What
it makes is sifted first: a changed message of an error or a log is no fault. What survives is compared with what has
been reviewed (`tests/mutation/reviewed`), and the rest is written to build/mutants/PACKAGE/survivors.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.packages import PACKAGES, Package
from tests.mutation.sifting import Change, change_between, read_reviewed

ROOT = Path(__file__).parents[2]
_STATUS = {1: "killed", 3: "killed", 0: "survived", 5: "untested", 33: "untested", None: "not tried", 36: "hung"}
KINDS = ("killed", "hung", "reviewed", "survived", "untested", "not tried")
_AGAIN = {"survived": ("survived",), "left": ("survived", "untested"), "all": KINDS}
_HANGS = {24, -24, 152, 255, -9, -11}
"""Exit codes of a test run that was stopped: an endless loop, or memory without end."""
_HYPOTHESIS = ("--hypothesis-seed=0", "--hypothesis-profile=mutants")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("package", choices=sorted(PACKAGES))
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--modules", nargs="*", default=[], help="their names, without .py")
    options.add_argument("--again", choices=sorted(_AGAIN), help="forget these results first")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--report", action="store_true")
    chosen = options.parse_args()
    work = ROOT / "build" / "mutants" / chosen.package
    if not chosen.report:
        prepare(work, chosen.package, PACKAGES[chosen.package])
        os.chdir(work)
        print(f"what mutmut says: {work / 'log.txt'}", flush=True)
        with output_in(work / "log.txt"):
            make_and_run(chosen.seconds, chosen.workers, chosen.modules, chosen.again)
    os.chdir(work)
    return report(chosen.package, chosen.modules)


def prepare(work: Path, name: str, package: Package) -> None:
    """A folder for mutmut: our sources and tests, and a pyproject.toml that tells it what to change."""
    work.mkdir(parents=True, exist_ok=True)
    for folder in ("src", "tests"):
        if not (work / folder).is_symlink():
            (work / folder).symlink_to(ROOT / folder)
    left_out = [f"--deselect={test}" if "::" in test else f"--ignore={test}" for test in package.left_out]
    arguments = [*left_out, "-p", "no:cacheprovider", "-p", "no:xdist", *_HYPOTHESIS]
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/penstock/{name}/*"],
        "do_not_mutate": [f"src/penstock/{each}" for each in package.not_mutated],
        "pytest_add_cli_args": arguments,
        "pytest_add_cli_args_test_selection": list(package.tests),
        "on_dependency_change": "ignore",
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    ours = (ROOT / "pyproject.toml").read_text()
    (work / "pyproject.toml").write_text(f"{ours}\n[tool.mutmut]\n{lines}")
    shutil.rmtree(work / "mutants" / "tests", ignore_errors=True)


def make_and_run(seconds: int, workers: int, modules: list[str], again: str | None) -> None:
    """Make the mutants anew where sources have changed, and try those that have no result yet, in a random order."""
    from mutmut import __main__ as mutmut
    from mutmut.mutation.trampoline import set_mutant_under_test
    from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths

    set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    setup_source_paths()
    mutmut.create_mutants(workers)
    names = []
    for _, data, changes in mutants_of(modules):
        for name, code in data["exit_code_by_key"].items():
            change = changes.get(name)
            retry = again is not None and status_of(code) in _AGAIN[again]
            if change is not None and not change.is_message and (code in (None, 2) or retry):
                names.append(name)
    if not names:
        return
    random.Random(0).shuffle(names)
    # mutmut stops its workers when it is interrupted, and keeps what it has found out. Not by an alarm: pytest-timeout
    # sets that for itself.
    end = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    end.daemon = True
    end.start()
    try:
        mutmut._run(tuple(names), workers)
    except KeyboardInterrupt:
        pass
    finally:
        end.cancel()


@contextmanager
def output_in(path: Path) -> Iterator[None]:
    """Let what is printed, a line for each mutant and the output of tests, go into a file."""
    kept = os.dup(1), os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def mutants_of(modules: list[str]) -> Iterator[tuple[Path, dict[str, dict[str, int | None]], dict[str, Change]]]:
    """Each module's results, and what each of its mutants changes."""
    for meta in sorted(Path("mutants/src").rglob("*.meta")):
        module = Path(str(meta).removesuffix(".meta"))
        if modules and module.stem not in modules:
            continue
        data = json.loads(meta.read_text())
        yield module, data, dict(changes_in(module, list(data["exit_code_by_key"])))


def changes_in(module: Path, names: list[str]) -> Iterator[tuple[str, Change]]:
    spans = json.loads(Path(f"{module}.spans").read_text())["spans"]
    lines = module.read_text().splitlines()

    def source(function: str) -> str:
        start, end = spans[function]
        return "\n".join(lines[start - 1 : end])

    for name in names:
        function = name.rpartition(".")[2]
        original = function.partition("__mutmut_")[0] + "__mutmut_orig"
        yield name, change_between(name, source(original), source(function))


def status_of(code: int | None) -> str:
    return "hung" if code in _HANGS else _STATUS.get(code, "killed")


def report(name: str, modules: list[str]) -> int:
    """Print the counts of each module, and write what survived and has not been reviewed."""
    reviewed = read_reviewed(ROOT / "tests" / "mutation" / "reviewed" / f"{name}.txt")
    total: Counter[str] = Counter()
    left = []
    print_row("module", ["mutants", *KINDS])
    for module, data, changes in mutants_of(modules):
        counts: Counter[str] = Counter()
        for mutant, code in data["exit_code_by_key"].items():
            change, status = changes[mutant], status_of(code)
            if change.is_message:
                continue
            if status in ("survived", "untested"):
                if change.key in reviewed:
                    status = "reviewed"
                else:
                    left.append((status, mutant, change))
            counts[status] += 1
        if counts:
            print_row(str(module).partition("/penstock/")[2], [counts.total(), *(counts[kind] for kind in KINDS)])
        total.update(counts)
    print_row("all", [total.total(), *(total[kind] for kind in KINDS)])
    survivors = Path("survivors.txt")
    survivors.write_text("\n".join(f"# {status}: {mutant}\n{change}\n" for status, mutant, change in left))
    print(f"{len(left)} are left to look at: {survivors.resolve()}")
    return 0


def print_row(label: str, cells: Iterable[object]) -> None:
    print(f"{label:40}" + "".join(f"{cell:>10}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
