"""A newcomer with a Debian that has Python and nothing else installs the wheel and does the tutorials as they stand.

Everything happens in a chroot over an empty layer, as a user without rights: `pip install` with all dependencies from
the package index, then every block of the pages from top to bottom. What each step took is printed. Needs root, apt and
the package index: `make newcomer`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.reader import Reader, follow

ROOT = Path(__file__).parents[2]
TUTORIALS = ("first-stream", "first-queue", "first-test")
PACKAGES = "python3,python3-venv,ca-certificates"
UID = 1000
HOME = Path("home/newcomer")


class Newcomer(Reader):
    """A reader inside of a root folder, who installs what a page says into an environment of their own."""

    def __init__(self, root: Path, wheel: str) -> None:
        super().__init__(root / HOME / "work")
        self.root = root
        self.wheel = wheel
        self.folder.mkdir(parents=True)
        os.chown(self.folder.parent, UID, UID)
        os.chown(self.folder, UID, UID)
        self.environment = {
            "HOME": f"/{HOME}",
            "LANG": "C.UTF-8",
            "PATH": f"/{HOME}/.venv/bin:/usr/sbin:/usr/bin",
            **{name: value for name, value in self.environment.items() if name.startswith("PENSTOCK_")},
        }

    def shell(self, *options: str) -> list[str]:
        inside = f'cd /{HOME}/work && eval "$1"'
        user = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"]
        return ["chroot", str(self.root), "setpriv", *user, "bash", *options, "-c", inside, "bash"]

    def install(self, command: str) -> None:
        """What the page says, with the file that was just built in place of the published package."""
        words = [self.wheel if word == "penstock" else word for word in shlex.split(command)]
        since = time.monotonic()
        self.run(shlex.join(words))
        report(command.strip(), since)

    def start_over(self) -> None:
        """A folder for the next page."""
        self.run("rm -rf ../work/* ../work/.[!.]*")


@contextmanager
def machine(suite: str) -> Iterator[Path]:
    """The root folder of a fresh Debian: a layer over one that is kept, which is gone at the end."""
    made = subprocess.run(
        [ROOT / ".ci" / "debian-root", f"bare-{suite}", suite, PACKAGES], stdout=subprocess.PIPE, text=True, check=True
    )
    below = made.stdout.strip()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        for name in ("changes", "work", "root"):
            (Path(folder) / name).mkdir()
        layers = f"lowerdir={below},upperdir={folder}/changes,workdir={folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, f"{folder}/root"], check=True)
        root = Path(folder) / "root"
        try:
            subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
            subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
            yield root
        finally:
            subprocess.run(["umount", "--recursive", "--lazy", root], check=True)


def report(what: str, since: float) -> None:
    print(f"{time.monotonic() - since:7.1f} s  {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="trixie", help="release of Debian (default: trixie)")
    chosen = parser.parse_args()
    if "NEWCOMER" not in os.environ:  # what is mounted below is seen by this run only
        os.environ["NEWCOMER"] = "1"
        os.execvp(
            "unshare",
            ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", __spec__.name, *sys.argv[1:]],
        )
    with machine(chosen.suite) as root:
        print(f"Debian {chosen.suite}, {inside(root, 'python3', '--version')}; seconds of each step:", flush=True)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", root / "opt"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wheel = next((root / "opt").glob("*.whl")).relative_to(root)
        begun = time.monotonic()
        newcomer = Newcomer(root, f"/{wheel}")
        try:
            newcomer.run("python3 -m venv ../.venv")
            report("python3 -m venv", begun)
            for page in TUTORIALS:
                since = time.monotonic()
                blocks = follow(newcomer, (ROOT / "docs" / "tutorials" / f"{page}.md").read_text("utf-8"))
                report(f"{page}: {blocks} blocks", since)
                newcomer.close()
                newcomer.start_over()
        finally:
            newcomer.close()
        report("in all", begun)


def inside(root: Path, *command: str) -> str:
    return subprocess.run(["chroot", root, *command], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
