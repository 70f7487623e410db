"""The history of leader epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log import leader_epochs
from penstock.log.files import write_file
from penstock.log.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs(str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, start in ((1, 10), (3, 20), (4, 30)):
        epochs.assign(epoch, start)
    return epochs


def test_the_file_is_kafkas_and_read_back(epochs: LeaderEpochs, tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n3\n1 10\n3 20\n4 30\n"
    assert LeaderEpochs(str(path)).entries == epochs.entries


def test_an_epoch_that_is_not_newer_changes_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(4, 50)
    epochs.assign(2, 60)
    assert epochs.entries == [(1, 10), (3, 20), (4, 30)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (3, 30)), (4, (4, 99)), (5, (-1, -1))],
)
def test_end_offsets(epochs: LeaderEpochs, epoch: int, expected: tuple[int, int]) -> None:
    assert epochs.end_offset_for(epoch, 99) == expected


def test_the_epoch_of_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (5, 10, 19, 20, 40)] == [-1, 1, 1, 3, 4]


def test_truncation_at_both_ends(epochs: LeaderEpochs) -> None:
    epochs.truncate_end(30)
    assert epochs.entries == [(1, 10), (3, 20)]
    epochs.truncate_start(15)
    assert epochs.entries == [(1, 15), (3, 20)]
    epochs.truncate_start(25)
    assert epochs.entries == [(3, 25)]
    epochs.truncate_start(25)
    assert epochs.entries == [(3, 25)]


def test_a_start_before_the_first_epoch_forgets_nothing(epochs: LeaderEpochs) -> None:
    epochs.truncate_start(5)
    assert epochs.entries == [(1, 10), (3, 20), (4, 30)]


def test_of_epochs_that_began_at_the_new_start_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n3\n1 10\n3 10\n4 30\n")
    epochs = LeaderEpochs(str(path))
    epochs.truncate_start(10)
    assert epochs.entries == LeaderEpochs(str(path)).entries == [(3, 10), (4, 30)]


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n2\n1 10\n", "0\n1\nx y\n", "0\n2\n3 10\n1 20\n"])
def test_a_senseless_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    assert LeaderEpochs(str(path)).entries == []


def test_a_history_that_is_made_anew_is_written_once_and_only_if_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start after a crash does this for every log that was written to."""
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = LeaderEpochs(str(path))
    epochs.assign(0, 0)
    epochs.assign(3, 10)
    written: list[str] = []

    def watched(path: str, data: bytes) -> None:
        written.append(path)
        write_file(path, data)

    monkeypatch.setattr(leader_epochs, "write_file", watched)
    with epochs.written_once():
        epochs.truncate_end(0)
        epochs.assign(0, 0)
        epochs.assign(3, 10)
    assert written == []
    with epochs.written_once():
        epochs.truncate_end(0)
        epochs.assign(0, 0)
        epochs.assign(2, 5)
    assert len(written) == 1
    assert LeaderEpochs(str(path)).entries == [(0, 0), (2, 5)]
    epochs.assign(4, 20)
    assert len(written) == 2
