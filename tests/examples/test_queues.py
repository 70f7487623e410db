"""The queue examples run as their README says, and do what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "queues"


def run(name: str, *options: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_image_workers_shrink_every_picture_and_reject_the_damaged_ones() -> None:
    assert run("thumbnails", "--uploads", "100").startswith("97 thumbnails")


def test_mailers_retry_until_sent_and_bury_what_cannot_be() -> None:
    printed = run("emails", "--emails", "25")
    assert printed.startswith("23 e-mails sent")
    assert "nobody@example.org after 1 attempts: Offset rejected by client." in printed
    assert "full@example.org after 10 attempts: Offset delivery count exceeded the threshold." in printed


def test_fraud_checks_examine_every_order() -> None:
    assert run("fraud_checks", "--orders", "100").startswith("100 orders checked")


def test_every_example_is_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    programs = {path.name for path in EXAMPLES.glob("*.py")} - {"stage.py"}
    assert {name for name in programs if f"examples/queues/{name}" in readme} == programs
