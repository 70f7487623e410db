from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.reader import Reader, follow


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_files_are_written_commands_run_and_output_compared(reader: Reader) -> None:
    page = "```python\n# say.py\nprint('a long word')\n```\n\n```sh\npython say.py\n```\n\n```text\na … word\n```\n"
    assert follow(reader, page) == 3


def test_other_output_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="expected"):
        follow(reader, "```sh\necho one\n```\n\n```text\ntwo\n```\n")


def test_a_command_that_fails_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="exit 3"):
        follow(reader, "```sh\nexit 3\n```\n")


def test_a_program_needs_a_name(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="name of its file"):
        follow(reader, "```python\nprint()\n```\n")
