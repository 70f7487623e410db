from __future__ import annotations

import pytest

from tests.docs.reader import Reader, follow


def test_files_are_written_commands_run_and_output_compared(reader: Reader) -> None:
    page = "```python\n# say.py\nprint('a long word')\n```\n\n```sh\npython say.py\n```\n\n```text\na … word\n```\n"
    assert follow(reader, page) == 3


def test_a_program_without_a_name_is_run(reader: Reader) -> None:
    assert follow(reader, "```python\n# a comment\nprint('done')\n```\n\n```text\ndone\n```\n") == 2


def test_other_output_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="expected"):
        follow(reader, "```sh\necho one\n```\n\n```text\ntwo\n```\n")


def test_a_command_that_fails_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="exit 3"):
        follow(reader, "```sh\nexit 3\n```\n")


def test_a_program_that_fails_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match=r"typed\.py"):
        follow(reader, "```python\nraise SystemExit(3)\n```\n")


def test_a_block_that_cannot_be_carried_out_is_an_error(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="nobody knows"):
        follow(reader, "```rust\nfn main() {}\n```\n")


def test_a_command_that_runs_until_it_is_interrupted_gets_its_ctrl_c(reader: Reader) -> None:
    reader.endless = ("sh -c",)
    follow(reader, "```sh\nsh -c 'trap \"exit 130\" INT; echo begun; while :; do sleep 0.1; done'\n```\n")
    assert reader.printed == "begun\n"
