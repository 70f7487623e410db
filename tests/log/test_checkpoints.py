"""Kafka's checkpoint files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.checkpoints import read_checkpoint, write_checkpoint
from penstock.log.errors import StorageError


def test_the_format_is_kafkas_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {("a.b-c", 0): 5, ("t", 12): 2**40}
    write_checkpoint(path, offsets)
    assert path.read_text() == f"0\n2\na.b-c 0 5\nt 12 {2**40}\n"
    assert read_checkpoint(path) == offsets


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"1\n0\n", b"0\nmany\n", b"0\n1\nt zero 5\n", b"0\n1\nt 0\n"])
def test_a_senseless_file_counts_as_empty(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert read_checkpoint(tmp_path / "x") == {}


def test_a_file_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        write_checkpoint(tmp_path / "missing folder" / "x", {})
