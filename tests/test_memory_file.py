"""Bytes with a path that are on no disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.memory_file import memory_file


def test_the_content_can_be_read_under_the_path_while_it_is_needed() -> None:
    content = b"secret" * 100_000
    with memory_file(content) as path:
        assert Path(path).read_bytes() == content
        if hasattr(os, "memfd_create"):
            assert os.readlink(path).startswith("/memfd:")
    with pytest.raises(OSError):
        Path(path).read_bytes()


def test_elsewhere_it_is_a_file_that_nobody_else_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with memory_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert Path(path).parent.stat().st_mode & 0o077 == 0
    assert not Path(path).parent.exists()
