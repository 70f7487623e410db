"""Shells complete the command's words."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_calls_the_command(penstock: Run, shell: str) -> None:
    script = penstock("completion", shell)
    assert script.returncode == 0
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in script.stdout


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("penstock topi", 1, "plain,topic"),
        ("penstock topic cr", 2, "plain,create"),
        ("penstock consume --from-nowhere", 2, ""),
        ("penstock serve --log-format js", 3, "plain,json"),
    ],
)
def test_words_are_completed(penstock: Run, words: str, at: int, expected: str) -> None:
    environment = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    assert penstock(env=environment).stdout.strip() == expected
