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
        assert os.readlink(path).startswith("/memfd:")
    with pytest.raises(OSError):
        Path(path).read_bytes()


def test_it_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(NotImplementedError, match="Linux"), memory_file(b""):
        pass
