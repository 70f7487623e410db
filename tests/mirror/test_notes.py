"""What a mirror remembers, as the metadata of a committed offset."""

from __future__ import annotations

import pytest

from penstock.mirror.notes import Note, name_of, read_note


def test_a_note_is_read_as_it_was_written() -> None:
    note = Note("00ff", 4711, 3, filling_to=12, cut_over_ms=1_700_000_000_000)
    written = note.commit(99)
    assert (written.offset, read_note(written.metadata)) == (99, note)
    assert len(written.metadata) < 200, "brokers bound it by offset.metadata.max.bytes"


@pytest.mark.parametrize("text", ["", "hello", "[1,2]", '{"a": 1}', "[1,2,3,4,null]"])
def test_other_metadata_is_no_note(text: str) -> None:
    assert read_note(text) is None


def test_the_group_is_named_after_the_source() -> None:
    assert name_of("abc") == "penstock-mirror-abc"
